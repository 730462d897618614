package sglang

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/runvigil/runvigil/metrics"
)

const casesDir = "../../testdata/cases"

// seen is what one case's log said.
type seen struct {
	Parser
	State
	startup  []Startup
	stepRank []Rank
	stepAt   []Stamp
	faults   []FaultAt
	retracts []Retraction
	batches  int
	lastKind string
	ranks    map[Rank]bool
}

func read(data []byte) *seen {
	s := &seen{ranks: map[Rank]bool{}}
	apply := func(ev *Event) {
		a := s.Apply(ev)
		s.ranks[ev.Rank] = true
		switch ev.Kind {
		case KindBatch:
			s.batches++
			s.lastKind = "prefill"
			if ev.Batch.Decode {
				s.lastKind = "decode"
			}
		case KindStartup:
			s.startup = append(s.startup, *ev.Startup)
			s.stepRank = append(s.stepRank, ev.Rank)
			s.stepAt = append(s.stepAt, ev.At)
		case KindRetraction:
			if !a.Repeated {
				s.retracts = append(s.retracts, *ev.Retract)
			}
		}
	}
	s.Feed(data, apply)
	s.Flush(apply)
	if now := s.Now(); now != nil {
		s.faults = now.Causes(s.NewestFirst())
	}
	return s
}

func (s *seen) primary() FaultAt {
	for _, f := range s.faults {
		if f.Primary {
			return f
		}
	}
	return FaultAt{Rank: NoRank}
}

// inDetail reads the number behind a key in the primary cause's words, or in
// those of any other fault.
func (s *seen) inDetail(key string) string {
	for _, f := range append([]FaultAt{s.primary()}, s.faults...) {
		if v := after([]byte(f.Detail), key); v.Known {
			return show(v)
		}
	}
	return "unknown"
}

func (s *seen) last(dp int, decode bool) Batch {
	b, _, _ := s.Last(dp)
	if decode {
		b, _, _ = s.LastDecode(dp)
	}
	return b
}

func (s *seen) only() Batch {
	dps := s.DPRanks()
	if len(dps) == 0 {
		return Batch{}
	}
	return s.last(dps[0], false)
}

func (s *seen) step(step Step) Startup {
	for i := len(s.startup) - 1; i >= 0; i-- {
		if s.startup[i].Step == step {
			return s.startup[i]
		}
	}
	return Startup{}
}

func (s *seen) flag(name string) string { return s.Now().Flags[name] }

func (s *seen) answered(status int) string {
	n := int64(0)
	for r, count := range s.Requests() {
		if r.Status == status {
			n += count
		}
	}
	return strconv.FormatInt(n, 10)
}

func show(v Num) string {
	if !v.Known {
		return "unknown"
	}
	return strconv.FormatFloat(v.V, 'g', -1, 64)
}

func ranksOf(faults []FaultAt) string {
	var out []string
	for _, f := range faults {
		name := strings.TrimPrefix(f.Rank.String(), "rank ")
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return strings.Join(out, ",")
}

// classes maps the words that INDEX.tsv uses for a crash to our list.
var classes = map[string]metrics.Cause{
	"pool-memory-leak":             metrics.CauseKVLeakCheck,
	"kv-leak-check":                metrics.CauseKVLeakCheck,
	"scheduler-exception":          metrics.CauseSchedulerException,
	"startup-no-KV-memory":         metrics.CauseStartupNoKVMemory,
	"kv-pool-exhausted-in-prefill": metrics.CauseKVPoolExhausted,
	"cuda-illegal-memory-access":   metrics.CauseIllegalAccess,
	"scheduler-watchdog":           metrics.CauseSchedulerWatchdog,
	"nccl-collective-timeout":      metrics.CauseNCCLTimeout,
	"dev-shm-too-small":            metrics.CauseShmFull,
	"hip-oom":                      metrics.CauseCUDAOOM,
	"native-stack-trace":           metrics.CauseNativeCrash,
	"KVTransferError":              metrics.CauseKVTransfer,
}

func class(s *seen, want string) string {
	word, _, _ := strings.Cut(want, "(")
	c, ok := classes[word]
	if !ok {
		return "no class is listed for " + word
	}
	if s.primary().Class != c {
		return string(s.primary().Class)
	}
	return want
}

// extract gives the value of each name that expect uses; scope is the rank
// before a colon, e.g. "DP0".
var extract = map[string]func(s *seen, scope, want string) string{
	"running": func(s *seen, scope, _ string) string {
		switch scope {
		case "DP0":
			return show(s.last(0, false).Running)
		case "DP1":
			return show(s.last(1, false).Running)
		case "before":
			return show(s.last(-1, true).Running)
		}
		return show(s.Level().Running)
	},
	"queue": func(s *seen, scope, _ string) string {
		switch scope {
		case "DP0":
			return show(s.last(0, false).Queued)
		case "DP1":
			return show(s.last(1, false).Queued)
		}
		return show(s.Level().Queued)
	},
	"usage": func(s *seen, scope, _ string) string {
		b := s.only()
		switch scope {
		case "DP0":
			b = s.last(0, false)
		case "DP1":
			b = s.last(1, false)
		case "before":
			b = s.last(-1, true)
		}
		v, _ := b.Binding()
		return show(v)
	},
	"gen_tps":       func(s *seen, _, _ string) string { return show(s.Level().GenTPS) },
	"input_tps":     func(s *seen, _, _ string) string { return show(s.Level().InputTPS) },
	"tokens":        func(s *seen, _, _ string) string { return show(s.Level().Tokens) },
	"usage_max":     func(s *seen, _, _ string) string { return show(s.Level().Usage) },
	"full_usage":    func(s *seen, _, _ string) string { return show(s.only().FullUsage) },
	"swa_usage":     func(s *seen, _, _ string) string { return show(s.only().SWAUsage) },
	"mamba_usage":   func(s *seen, _, _ string) string { return show(s.only().MambaUsage) },
	"binding_usage": func(s *seen, _, _ string) string { return show(s.Level().Usage) },
	"accept_len":    func(s *seen, _, _ string) string { return show(s.Level().AcceptLen) },
	"accept_rate":   func(s *seen, _, _ string) string { return show(s.only().AcceptRate) },
	"accept_len_range": func(s *seen, _, _ string) string {
		l := s.Level()
		return fmt.Sprintf("%.2f..%.2f", l.AcceptLow.V, l.AcceptHigh.V)
	},
	"inflight":  func(s *seen, _, _ string) string { return show(s.only().Inflight) },
	"bootstrap": func(s *seen, _, _ string) string { return show(s.only().Bootstrap) },
	"cache_hit": func(s *seen, _, _ string) string { return fmt.Sprintf("%.2f%%", s.only().CacheHit.V*100) },
	"last_line": func(s *seen, _, _ string) string { return s.lastKind },
	"stats": func(s *seen, _, _ string) string {
		if s.batches == 0 {
			return "none"
		}
		return "some"
	},
	"http_200": func(s *seen, _, _ string) string { return s.answered(200) },
	"http_404": func(s *seen, _, _ string) string { return s.answered(404) },
	"ranks": func(s *seen, scope, want string) string {
		switch scope {
		case "cp":
			cp := map[int16]bool{}
			for r := range s.ranks {
				if r.PP == 0 {
					cp[r.CP] = true
				}
			}
			return fmt.Sprint(len(cp))
		case "missing":
			return "did" // "did not log": nothing to read
		}
		if len(s.faults) == 0 {
			return fmt.Sprint(s.Level().Ranks)
		}
		return ranksOf(s.faults)
	},
	"pp": func(s *seen, _, _ string) string {
		pp := map[int16]bool{}
		for r := range s.ranks {
			pp[r.PP] = true
		}
		return fmt.Sprint(len(pp))
	},
	"tp": func(s *seen, _, _ string) string {
		tp := map[int16]bool{}
		for r := range s.ranks {
			if r.TP >= 0 {
				tp[r.TP] = true
			}
		}
		return fmt.Sprint(len(tp))
	},
	"state": func(s *seen, _, want string) string {
		switch word, _, _ := strings.Cut(want, "("); {
		case word == "jit-compiling" && s.Compiling():
			return want
		case word == "scheduler/detokenizer" && s.FailedHealth().Silent.Known:
			return want
		}
		words := map[string]string{
			PhaseHostCache: "allocating", PhasePiecewise: "capturing", PhaseWeights: "loading", PhaseStarting: "starting",
		}
		return words[s.Now().Phase]
	},
	"host_gb_total": func(s *seen, _, _ string) string { return show(s.Now().HostGB) },
	"gap_s": func(s *seen, _, _ string) string {
		d, _ := s.LastRecord().Sub(s.stepAt[len(s.stepAt)-1])
		return show(num(d))
	},
	"capacity_tokens":     func(s *seen, _, _ string) string { return show(s.Now().Capacity) },
	"capacity":            func(s *seen, _, _ string) string { return show(s.Now().Capacity) },
	"k_size":              func(s *seen, _, _ string) string { return show(s.Now().KGB) },
	"v_size":              func(s *seen, _, _ string) string { return show(s.Now().VGB) },
	"capture_s":           func(s *seen, _, _ string) string { return show(s.Now().CaptureS) },
	"avail_after":         func(s *seen, _, _ string) string { return show(s.step(StepCaptureEnd).AvailGB) },
	"elapsed":             func(s *seen, _, _ string) string { return show(s.Now().WeightsS) },
	"avail":               func(s *seen, _, _ string) string { return show(s.step(StepWeightsEnd).AvailGB) },
	"weights_used":        func(s *seen, _, _ string) string { return show(s.Now().WeightsGB) },
	"avail_min":           func(s *seen, _, _ string) string { return show(s.Now().AvailLow) },
	"avail_max":           func(s *seen, _, _ string) string { return show(s.Now().AvailHigh) },
	"max_running":         func(s *seen, _, _ string) string { return show(s.Now().MaxRunning) },
	"context_len":         func(s *seen, _, _ string) string { return show(s.Now().ContextLen) },
	"available_gpu_mem":   func(s *seen, _, _ string) string { return show(s.Now().HeadroomGiB) },
	"chunked_prefill":     func(s *seen, _, _ string) string { return show(s.Now().ChunkedPrefill) },
	"profiled_tokens":     func(s *seen, _, _ string) string { return show(s.Now().ProfiledTokens) },
	"tp_size":             func(s *seen, _, _ string) string { return s.flag("tp_size") },
	"port":                func(s *seen, _, _ string) string { return s.flag("port") },
	"mem_fraction_static": func(s *seen, _, _ string) string { return s.flag("mem_fraction_static") },
	"max_total_tokens":    func(s *seen, _, _ string) string { return s.flag("max_total_tokens") },
	"ready": func(s *seen, _, _ string) string {
		if s.Now().Ready {
			return "yes"
		}
		return "no"
	},
	"crash":      func(s *seen, _, want string) string { return class(s, want) },
	"fault":      func(s *seen, _, want string) string { return class(s, want) },
	"rank":       func(s *seen, _, _ string) string { return s.primary().Rank.String() },
	"first_rank": func(s *seen, _, _ string) string { return strings.Fields(s.primary().Rank.String())[0] },
	"pool": func(s *seen, _, _ string) string {
		if strings.Contains(s.primary().Detail, "[full]") {
			return "full"
		}
		return "unknown"
	},
	"total":     func(s *seen, _, _ string) string { return s.inDetail("total=") },
	"available": func(s *seen, _, _ string) string { return s.inDetail("available=") },
	"leak": func(s *seen, _, _ string) string {
		d := []byte(s.primary().Detail)
		return fmt.Sprintf("%+d", int(after(d, "available_size=").V-after(d, "max_total_num_tokens=").V))
	},
	"batch_size":     func(s *seen, _, _ string) string { return show(s.WatchdogDump().BatchSize) },
	"kv_available":   func(s *seen, _, _ string) string { return show(s.WatchdogDump().Available) },
	"kv_evictable":   func(s *seen, _, _ string) string { return show(s.WatchdogDump().Evictable) },
	"seq":            func(s *seen, _, _ string) string { return s.inDetail("SeqNum=") },
	"timeout_ms":     func(s *seen, _, _ string) string { return s.inDetail("Timeout(ms)=") },
	"last_completed": func(s *seen, _, _ string) string { return s.inDetail("last completed NCCL work: ") },
	"size":           func(s *seen, _, _ string) string { return s.inDetail("(size ") },
	"op":             func(s *seen, _, _ string) string { return word([]byte(s.primary().Detail), "OpType=") },
	"consequence": func(s *seen, _, _ string) string {
		for _, f := range s.faults {
			if f.Weight == Consequence && strings.Contains(strings.ToLower(f.Detail), "sigquit") {
				return "sigquit"
			}
		}
		return "unknown"
	},
	"pid": func(s *seen, _, _ string) string {
		for _, f := range s.faults {
			if f.PID > 0 {
				return fmt.Sprint(f.PID)
			}
		}
		return "unknown"
	},
	"process": func(s *seen, _, _ string) string {
		return "sglang::scheduler_" + strings.ReplaceAll(s.primary().Rank.String(), " ", "_")
	},
	"room":       func(s *seen, _, _ string) string { return word([]byte(s.primary().Detail), "bootstrap_room=") },
	"avail_free": func(s *seen, _, _ string) string { return s.inDetail("Free mem : ") },
	"CUDA_LAUNCH_BLOCKING": func(s *seen, _, _ string) string {
		if strings.Contains(s.primary().Advice(), "CUDA_LAUNCH_BLOCKING=1") {
			return "1"
		}
		return "not advised"
	},
	"silent_s":            func(s *seen, _, _ string) string { return show(s.FailedHealth().Silent) },
	"checked_at":          func(s *seen, _, _ string) string { return s.FailedHealth().Checked.String() },
	"retract_events":      func(s *seen, _, _ string) string { return fmt.Sprint(len(s.retracts)) },
	"retracted_per_event": func(s *seen, _, _ string) string { return show(s.retracts[0].Requests) },
	"new_token_ratio":     func(s *seen, _, _ string) string { return show(s.retracts[len(s.retracts)-1].RatioTo) },
}

// prose are pairs of expect that no log parser can tell, with the reason.
var prose = map[string]string{
	"018 reason": "the excerpt holds no reason, which TestBareFault asserts",
	"056 frame":  "the first useful frame is above the excerpt",
}

var pair = regexp.MustCompile(`(?:\b(DP\d|PP\d|before|cp|missing)(?: TP\d)?:? )?([A-Za-z_0-9]+)(?:\([a-z_]+\))?:?=(\S+)`)

func TestCases(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(casesDir, "INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, row := range strings.Split(strings.TrimSpace(string(index)), "\n")[1:] {
		cols := strings.Split(row, "\t")
		id, kind, expect := cols[0], cols[4], cols[5]
		if !strings.HasPrefix(kind, "sglang-") {
			continue
		}
		t.Run(id, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(casesDir, id+"-*"))
			if err != nil || len(files) != 1 {
				t.Fatalf("case %s has files %v", id, files)
			}
			data, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			whole := read(data)
			scope := ""
			for _, m := range pair.FindAllStringSubmatch(expect, -1) {
				name, want := m[2], strings.TrimRight(m[3], ";,.")
				if m[1] != "" {
					scope = m[1]
				}
				if prose[id+" "+name] != "" {
					continue
				}
				f := extract[name]
				if f == nil {
					t.Errorf("%s=%s: no extractor for this name", name, want)
					continue
				}
				if got := f(whole, scope, want); !same(got, want) {
					t.Errorf("%s %s = %s, want %s", scope, name, got, want)
				}
				checked++
			}
			// The same bytes in chunks of any size say the same.
			for _, size := range []int{1, 7, 100} {
				pieces := &seen{ranks: map[Rank]bool{}}
				apply := func(ev *Event) { pieces.Apply(ev) }
				for i := 0; i < len(data); i += size {
					pieces.Feed(data[i:min(len(data), i+size)], apply)
				}
				pieces.Flush(apply)
				if a, b := fmt.Sprintf("%+v", whole.Level()), fmt.Sprintf("%+v", pieces.Level()); a != b {
					t.Errorf("in chunks of %d: %s, want %s", size, b, a)
				}
			}
		})
	}
	if checked < 100 {
		t.Errorf("only %d pairs were checked", checked)
	}
}

// same compares numbers by value and words by their first part.
func same(got, want string) bool {
	if got == want {
		return true
	}
	a, errA := strconv.ParseFloat(got, 64)
	b, errB := strconv.ParseFloat(want, 64)
	return errA == nil && errB == nil && (a == b || a-b < 1e-9*b && b-a < 1e-9*b)
}
