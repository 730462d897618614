package vllm

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/runvigil/runvigil/metrics"
)

type fieldCase struct {
	id, kind, expect string
	data             []byte
}

func readCases(t testing.TB, kind string) []fieldCase {
	t.Helper()
	index, err := os.ReadFile("../../testdata/cases/INDEX.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var out []fieldCase
	for line := range strings.Lines(string(index)) {
		f := strings.Split(line, "\t")
		if len(f) < 6 || !strings.HasPrefix(f[4], kind) {
			continue
		}
		names, _ := filepath.Glob("../../testdata/cases/" + f[0] + "-*")
		data, err := os.ReadFile(names[0])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fieldCase{f[0], f[4], f[5], data})
	}
	if len(out) == 0 {
		t.Fatal("no cases")
	}
	return out
}

// foldChunks folds a log that arrives in pieces of n bytes.
func foldChunks(data []byte, n int) *State {
	var p Parser
	s := &State{}
	apply := func(ev *Event) { s.Apply(ev) }
	for len(data) > n {
		p.Feed(data[:n], apply)
		data = data[n:]
	}
	p.Feed(data, apply)
	p.Flush(apply)
	return s
}

func fold(data []byte) *State { return foldChunks(data, 1<<30) }

func show(n Num) string {
	if !n.Known {
		return "unknown"
	}
	return strconv.FormatFloat(n.V, 'g', -1, 64)
}

func pct(n Num) string {
	n.V = math.Round(n.V*1e8) / 1e6
	return show(n)
}

func hms(n Num) string {
	t := int(n.V)
	return fmt.Sprintf("%d:%02d:%02d", t/3600, t/60%60, t%60)
}

// crashes maps the words of the index to our classes.
var crashes = map[string]metrics.Cause{
	"EngineCore-fatal": metrics.CauseSchedulerException, "engine-shutdown": metrics.CauseEngineDead,
	"startup-gpu-occupied": metrics.CauseStartupGPUOccupied, "worker-exception": metrics.CauseWorkerDied,
	"port-in-use": metrics.CausePortInUse, "cuda-illegal-memory-access": metrics.CauseIllegalAccess,
	"nccl-collective-timeout": metrics.CauseNCCLTimeout,
}

// notTold are expected words that a log's reader cannot give, with the reason.
var notTold = map[string]string{
	"log_stale": "needs a clock: the board compares the file's age with the server's answers",
	"cause":     "the index says that the cause is not in the excerpt",
}

func extract(s *State, name string) (string, bool) {
	l := s.Level()
	st := s.Now()
	if st == nil {
		st = &Start{}
	}
	spec, _ := s.Spec()
	job, _ := s.Job()
	waits, seconds, _ := s.Waiting()
	var cause FaultAt
	worker := FaultAt{}
	for _, f := range st.Causes(s.NewestFirst()) {
		if f.Primary {
			cause = f
		}
		if f.Worker != "" || f.HolderPID != 0 {
			worker = f
		}
	}
	or := func(a, b Num) Num { return a.or(b) }
	switch name {
	case "running":
		return show(or(l.Running, s.Dump().Running)), true
	case "waiting":
		return show(or(l.Queued, s.Dump().Waiting)), true
	case "swapped":
		return show(l.Swapped), true
	case "gen_tps":
		return show(l.GenTPS), true
	case "prompt_tps":
		return show(l.InputTPS), true
	case "kv_pct", "kv_pct(cpu)":
		return pct(l.Usage), true
	case "gpu_kv":
		for _, e := range s.Engines() {
			b, _, _ := s.Last(e)
			return pct(b.KVUsage), true
		}
	case "kv_usage":
		return show(s.Dump().KVUsage), true
	case "scheduled_tokens":
		return show(s.Dump().Scheduled), true
	case "prefix_hit":
		return pct(l.PrefixHit), true
	case "prefix_hit_gpu":
		return pct(s.Prefix().GPU), true
	case "prefix_hit_cpu":
		return pct(s.Prefix().CPU), true
	case "mm_hit":
		return pct(l.MMHit), true
	case "draft_acceptance":
		return show(spec.AcceptRate), true
	case "accept_pct":
		return pct(spec.AcceptRate), true
	case "system_efficiency":
		return show(spec.Efficiency), true
	case "accepted":
		return show(spec.Accepted), true
	case "draft":
		return show(spec.Drafted), true
	case "emitted":
		return show(spec.Emitted), true
	case "engine":
		return fmt.Sprintf("%03d", s.Engines()[0]), true
	case "counts":
		var b strings.Builder
		for i, c := range s.Counts() {
			fmt.Fprintf(&b, "%s[%d,%d]", []string{"", ","}[min(i, 1)], c.Waiting, c.Running)
		}
		return "[" + b.String() + "]", true
	case "prompts", "progress":
		return fmt.Sprintf("%d/%d", job.Done, job.Total), true
	case "elapsed":
		return hms(job.Elapsed), true
	case "eta":
		return hms(job.Left), true
	case "rate":
		return show(job.Rate) + "it/s", true
	case "shm_wait":
		return fmt.Sprintf("%d times (%v s)", waits, seconds), true
	case "load":
		if st.Phase != PhaseWeights && len(st.Took) > 0 {
			return "9/9", st.Took[0].Name == PhaseWeights // the bar was full when its phase ended
		}
		return fmt.Sprintf("%d/%d", st.Done, st.Total), true
	case "weights_s":
		return show(st.WeightsS), true
	case "model_mem":
		return show(st.WeightGB), true
	case "model_load_s":
		return show(st.LoadS), true
	case "ready":
		return map[bool]string{true: "yes(server address printed)", false: "no"}[st.Ready], true
	case "stats":
		return map[bool]string{true: "unknown", false: "known"}[l.Engines == 0], true
	case "state":
		switch {
		case st.Phase == PhaseReady && l.GenTPS.V > 0:
			return "generating", true
		}
		return st.Phase, true
	case "crash":
		for word, class := range crashes {
			if class == cause.Class {
				return word, true
			}
		}
		return "class " + string(cause.Class), true
	case "api":
		return map[bool]string{true: "output_handler failed"}[strings.Contains(cause.Detail, "output_handler failed")], true
	case "free":
		return show(cause.FreeGB), true
	case "need":
		return show(cause.NeedGB), true
	case "total":
		return show(or(cause.TotalGB, st.TotalGB)), true
	case "util":
		return show(or(cause.Util, st.Util)), true
	case "kv_mem":
		return show(st.KVGB), true
	case "cuda_blocks":
		return show(st.Blocks), true
	case "max_concurrency":
		return show(st.Concurrency), true
	case "port":
		return strconv.Itoa(cause.Port), true
	case "holder_pid":
		return strconv.Itoa(worker.HolderPID), true
	case "holder":
		return worker.Holder, true
	case "worker":
		return worker.Worker, true
	case "exit":
		return show(worker.Exit), true
	case "ran_ms":
		return show(cause.RanMs), true
	case "limit_ms":
		return show(cause.LimitMs), true
	}
	return "", false
}

var keyRE = regexp.MustCompile(`([A-Za-z_]\w*(?:\(cpu\))?):?=`)

func same(got, want string) bool {
	if want == got || strings.HasPrefix(want, got+" ") || strings.HasPrefix(want, got+"(") || strings.HasPrefix(want, got+",") {
		return got != ""
	}
	a, err := strconv.ParseFloat(got, 64)
	w := strings.TrimRight(strings.TrimSuffix(strings.TrimSuffix(strings.Fields(want + " ")[0], "GiB"), "x"), ";,")
	b, err2 := strconv.ParseFloat(w, 64)
	return err == nil && err2 == nil && a == b
}

func TestCases(t *testing.T) {
	for _, c := range readCases(t, "vllm") {
		s := fold(c.data)
		at := keyRE.FindAllStringSubmatchIndex(c.expect, -1)
		checked := 0
		for i, m := range at {
			end := len(c.expect)
			if i+1 < len(at) {
				end = at[i+1][0]
			}
			name, value := c.expect[m[2]:m[3]], strings.TrimRight(strings.TrimSpace(c.expect[m[1]:end]), ";")
			if j := strings.Index(value, ";"); j > 0 {
				value = value[:j]
			}
			if notTold[name] != "" {
				continue
			}
			got, known := extract(s, name)
			if !known {
				t.Errorf("%s: no extractor for %q", c.id, name)
				continue
			}
			if !same(got, value) {
				t.Errorf("%s: %s = %q, want %q", c.id, name, got, value)
			}
			checked++
		}
		if checked == 0 {
			t.Errorf("%s: nothing was checked", c.id)
		}
		for _, n := range []int{1, 7, 64} {
			if a, b := fmt.Sprintf("%+v", s.Level()), fmt.Sprintf("%+v", foldChunks(c.data, n).Level()); a != b {
				t.Errorf("%s: in chunks of %d bytes: %s, want %s", c.id, n, b, a)
			}
		}
	}
}

// Signs beyond figures that the index tells in prose.
func TestCaseSigns(t *testing.T) {
	for _, c := range readCases(t, "vllm") {
		s := fold(c.data)
		if want := c.id == "067"; s.Repeating() != want {
			t.Errorf("%s: repeating %v", c.id, s.Repeating())
		}
		if still := s.Level().Still; (still >= 2) != (c.id == "069") {
			t.Errorf("%s: %d lines with requests and no token", c.id, still)
		}
		st := s.Now()
		if c.id == "096" && (st.Ready || !st.Stopped) {
			t.Errorf("096: ready %v stopped %v", st.Ready, st.Stopped)
		}
		if c.id == "090" && st.Causes(false)[0].Class != metrics.CauseStartupNoKVMemory {
			t.Errorf("090: %+v", st.Causes(false))
		}
		if c.id == "094" && st.Causes(false)[0].Phase != PhasePrefill {
			t.Errorf("094: %+v", st.Causes(false))
		}
		if strings.HasSuffix(c.kind, "stats") || c.id == "084" {
			for _, f := range st.causes() {
				t.Errorf("%s: a fault in a healthy log: %+v", c.id, f)
			}
		}
	}
}

func (st *Start) causes() []FaultAt {
	if st == nil {
		return nil
	}
	return st.Causes(false)
}
