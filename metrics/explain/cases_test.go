package explain

import (
	"bytes"
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

const casesDir = "../../testdata/cases"

type fieldCase struct {
	id, kind, expect string
	data             []byte
}

func readCases(t testing.TB) []fieldCase {
	t.Helper()
	index, err := os.ReadFile(filepath.Join(casesDir, "INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	var out []fieldCase
	for _, row := range strings.Split(strings.TrimSpace(string(index)), "\n")[1:] {
		f := strings.Split(row, "\t")
		names, err := filepath.Glob(filepath.Join(casesDir, f[0]+"-*"))
		if err != nil || len(names) != 1 {
			t.Fatalf("case %s: files %v, error %v", f[0], names, err)
		}
		data, err := os.ReadFile(names[0])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fieldCase{f[0], f[4], f[5], data})
	}
	return out
}

func explained(t testing.TB, data []byte) *Report {
	t.Helper()
	r, err := Read(bytes.NewReader(data), KindAuto)
	if err != nil {
		t.Error(err)
	}
	return r
}

// kinds maps the index's kinds to ours; a prefix may stand for several.
var kinds = map[string][]Kind{
	"sglang": {KindServerLog}, "vllm": {KindServerLog}, "gpu": {KindGPU}, "kernel": {KindKernel}, "metrics": {KindMetrics},
	"json": {KindInfo, KindLoads}, "client": {KindClient, KindRows}, "k8s": {KindKube},
}

// classes maps the words that the index uses for a fault to our list.
var classes = map[string]metrics.Cause{
	"pool-memory-leak": metrics.CauseKVLeakCheck, "kv-leak-check": metrics.CauseKVLeakCheck, "scheduler-exception": metrics.CauseSchedulerException,
	"startup-no-KV-memory": metrics.CauseStartupNoKVMemory, "kv-pool-exhausted-in-prefill": metrics.CauseKVPoolExhausted,
	"cuda-illegal-memory-access": metrics.CauseIllegalAccess, "scheduler-watchdog": metrics.CauseSchedulerWatchdog,
	"nccl-collective-timeout": metrics.CauseNCCLTimeout, "dev-shm-too-small": metrics.CauseShmFull, "hip-oom": metrics.CauseCUDAOOM,
	"native-stack-trace": metrics.CauseNativeCrash, "KVTransferError": metrics.CauseKVTransfer,
	"EngineCore-fatal": metrics.CauseSchedulerException, "engine-shutdown": metrics.CauseEngineDead, "startup-gpu-occupied": metrics.CauseStartupGPUOccupied,
	"worker-exception": metrics.CauseWorkerDied, "port-in-use": metrics.CausePortInUse,
	"driver-library-mismatch": metrics.CauseDriverMismatch, "gpu-lost": metrics.CauseGPULost, "driver-not-loaded": metrics.CauseDriverNotLoaded,
	"EMFILE": metrics.CauseTooManyFiles, "ENOSPC": metrics.CauseShmFull, "gsp-timeout": metrics.CauseGPUFirmwareTimeout,
	"stdout-buffered-or-just-started": metrics.CauseClientBuffered,
}

// prose are words of the index that no figure stands for, with the reason.
var prose = map[string]string{
	"018 reason":                  "the excerpt holds no reason",
	"056 frame":                   "the first useful frame is above the excerpt",
	"086 cause":                   "the root cause is below the excerpt",
	"088 cause":                   "the cause is not in the excerpt",
	"084 log_stale":               "needs a clock",
	"048 missing ranks":           "ranks that did not log cannot be read",
	"131 cause":                   "the first: TestPrimaryIsFirst asserts it",
	"168 killed":                  "the victim is not in the excerpt",
	"129 NVreg_EnableGpuFirmware": "a module option that the index advises; ours is to stop polling and restart",
	"150 PYTHONUNBUFFERED":        "part of the advice, which TestAdvice asserts",
}

func num(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

func pct(v *float64) string {
	if v == nil {
		return "unknown"
	}
	x := math.Round(*v*1e8) / 1e6
	return num(&x)
}

// seen is a report with the places where the index's names are found.
type seen struct {
	*Report
}

func (s seen) start() Start {
	if len(s.Starts) == 0 {
		return Start{}
	}
	return s.Starts[len(s.Starts)-1]
}

func (s seen) figure(name string) *float64 {
	if v, ok := s.start().Figures[name]; ok {
		return &v
	}
	return nil
}

func (s seen) primary() Cause {
	if c := s.Primary(); c != nil {
		return *c
	}
	return Cause{}
}

func (s seen) detail() string { return or(s.primary().Detail, "") }

// inDetail is the word behind a key in the primary cause's words, else in another's.
func (s seen) inDetail(key string) string {
	for _, c := range append([]Cause{s.primary()}, s.Causes...) {
		if _, rest, ok := strings.Cut(or(c.Detail, ""), key); ok {
			return strings.Trim(strings.FieldsFunc(rest+" ", func(r rune) bool { return strings.ContainsRune(" ,;()'", r) })[0], " ")
		}
	}
	return "unknown"
}

func (s seen) noted(re string) string {
	m := regexp.MustCompile(re).FindStringSubmatch(s.Text(""))
	if m == nil {
		return "unknown"
	}
	return m[1]
}

func (s seen) progress() string {
	if s.Progress.Done == nil || s.Progress.Total == nil {
		return "unknown"
	}
	return fmt.Sprintf("%d/%d", *s.Progress.Done, *s.Progress.Total)
}

// gpu is the row that a name asks for: gpu0's, the one of an index, or the first.
func (s seen) gpu(index int) *GPU {
	for i := range s.GPUs {
		if index < 0 || s.GPUs[i].Index != nil && *s.GPUs[i].Index == index {
			return &s.GPUs[i]
		}
	}
	return nil
}

func (s seen) gpuFigure(index int, get func(*GPU) *float64) string {
	g := s.gpu(index)
	if g == nil {
		return "no row"
	}
	return num(get(g))
}

func (s seen) gpuText(get func(*GPU) *string) string {
	if g := s.gpu(-1); g != nil {
		return or(get(g), "unknown")
	}
	return "unknown"
}

func gpuExtra(name string) func(*GPU) *float64 {
	return func(g *GPU) *float64 {
		if v, ok := g.Figures[name]; ok {
			return &v
		}
		return nil
	}
}

var gpuFigures = map[string]func(*GPU) *float64{
	"mem_used": func(g *GPU) *float64 { return g.MemoryUsed }, "used": func(g *GPU) *float64 { return g.MemoryUsed },
	"mem": func(g *GPU) *float64 { return g.MemoryUsed }, "fb": func(g *GPU) *float64 { return g.MemoryUsed },
	"mem_total": func(g *GPU) *float64 { return g.MemoryTotal }, "total": func(g *GPU) *float64 { return g.MemoryTotal },
	"mem_free": func(g *GPU) *float64 { return g.MemoryFree }, "util": func(g *GPU) *float64 { return g.Util },
	"sm": func(g *GPU) *float64 { return g.Util }, "mem_util": func(g *GPU) *float64 { return g.MemUtil },
	"temp": func(g *GPU) *float64 { return g.Temp }, "power": func(g *GPU) *float64 { return g.Power },
	"power_limit": func(g *GPU) *float64 { return g.PowerLimit }, "cap": func(g *GPU) *float64 { return g.PowerLimit },
	"power_default": gpuExtra("power_default_w"), "pviol": gpuExtra("power_violation_pct"), "fan": func(g *GPU) *float64 { return g.Fan },
	"mclk": func(g *GPU) *float64 { return g.ClockMem }, "pclk": func(g *GPU) *float64 { return g.ClockSM },
	"gpu_slowdown_temp": gpuExtra("slowdown_temp_c"), "MemTotal_kB": gpuExtra("host_mem_total_kb"),
}

func (s seen) gpuValue(owner, name string) (string, bool) {
	index := -1
	if m := regexp.MustCompile(`^([a-z_]+)(\d)$`).FindStringSubmatch(name); m != nil && gpuFigures[m[1]] != nil {
		name = m[1]
		index, _ = strconv.Atoi(m[2])
	} else if n, err := strconv.Atoi(strings.TrimPrefix(owner, "gpu")); err == nil {
		index = n
	}
	if get := gpuFigures[name]; get != nil {
		return s.gpuFigure(index, get), true
	}
	switch name {
	case "gpus":
		if len(s.GPUs) == 0 {
			return "unknown", true
		}
		return strconv.Itoa(len(s.GPUs)), true
	case "index", "gpu":
		if g := s.gpu(-1); g != nil && g.Index != nil {
			return strconv.Itoa(*g.Index), true
		}
		return map[bool]string{true: "0"}[name == "gpu"], true // a table of processes alone names no card
	case "name":
		return s.gpuText(func(g *GPU) *string { return g.Name }), true
	case "driver":
		return s.gpuText(func(g *GPU) *string { return g.Driver }), true
	case "cuda":
		return s.gpuText(func(g *GPU) *string { return g.CUDA }), true
	case "mig":
		return s.gpuText(func(g *GPU) *string { return g.MIG }), true
	case "ecc":
		return s.gpuText(func(g *GPU) *string { return g.ECC }), true
	case "pstate":
		return s.gpuText(func(g *GPU) *string { return g.PState }), true
	case "throttle":
		if g := s.gpu(-1); g != nil {
			return strings.Join(g.Throttle, ",") + "(Active)", true
		}
	case "thermal":
		if g := s.gpu(-1); g != nil && strings.Contains(strings.Join(g.Throttle, ","), "Thermal") {
			return "yes", true
		}
		return "no", true
	case "procs":
		for _, f := range s.Findings {
			if f.ID == "processes-unknown" {
				return "unknown", true
			}
		}
		return "told", true
	case "proc":
		for _, g := range s.GPUs {
			for _, p := range g.Processes {
				if p.Ghost {
					return "(null)", true
				}
			}
		}
	case "lib":
		return s.noted(`library ?(?:version:? ?)?([0-9.]+[0-9])`), true
	case "bus":
		return or(s.primary().Rank, ""), true
	case "lost":
		return s.noted(`\((\d+ GPU):`), true
	}
	return "", false
}

// value is what the report says under a name of the index.
func (s seen) value(c fieldCase, scope, name, want string) (string, bool) {
	switch name {
	case "crash", "fault", "diagnosis":
		word := regexp.MustCompile(`^[\w-]+`).FindString(want)
		class, listed := classes[word]
		if !listed {
			return "no class is listed for " + word, true
		}
		if s.primary().Class == string(class) {
			return want, true
		}
		return "class " + s.primary().Class, true
	}
	if c.kind == "gpu" {
		return s.gpuValue(scope, name)
	}
	rank := strings.ToLower(scope)
	if !strings.HasPrefix(rank, "dp") {
		rank = ""
	}
	ranked := func(top *float64, name string) string {
		if rank != "" {
			return num(s.figure(rank + "_" + name))
		}
		return num(top)
	}
	switch name {
	case "running":
		return ranked(s.Running, "running"), true
	case "queue", "waiting":
		return ranked(s.Queued, "queued"), true
	case "usage":
		return ranked(s.KVUsage, "kv_usage"), true
	case "usage_max", "binding_usage", "kv_usage", "kv":
		return num(s.KVUsage), true
	case "kv_pct", "kv_pct(cpu)":
		return pct(s.KVUsage), true
	case "gpu_kv":
		return pct(s.figure("gpu_kv_usage")), true
	case "gen_tps":
		return num(s.GenTPS), true
	case "input_tps", "prompt_tps":
		return num(s.InputTPS), true
	case "tokens", "used_tokens":
		return num(s.KVTokens), true
	case "capacity_tokens", "capacity":
		return num(s.CapacityTokens), true
	case "max_running":
		return num(s.MaxRunningRequests), true
	case "context_len":
		return num(s.ContextLen), true
	case "available_gpu_mem":
		return num(s.HeadroomGiB), true
	case "accept_len":
		return num(s.AcceptLen), true
	case "accept_len_range":
		return fmt.Sprintf("%.2f..%.2f", *s.figure("accept_len_low"), *s.figure("accept_len_high")), true
	case "full_usage", "swa_usage", "mamba_usage", "accept_rate", "inflight", "bootstrap", "swapped", "profiled_tokens", "scheduled_tokens", "capture_s",
		"requests_total", "aborted_total", "mem_fraction":
		return num(s.figure(name)), true
	}
	if figure, ok := map[string]string{
		"chunked_prefill": "chunked_prefill_size", "k_size": "k_gib", "v_size": "v_gib", "avail_after": "avail_gib", "elapsed": "weights_s",
		"weights_used": "weights_gib", "avail": "avail_gib", "avail_min": "avail_low_gib", "avail_max": "avail_high_gib",
		"host_gb_total": "host_cache_gb", "gap_s": "phase_s", "batch_size": "watchdog_batch_size", "kv_available": "watchdog_kv_available",
		"kv_evictable": "watchdog_kv_evictable", "silent_s": "health_silent_s", "retract_events": "retractions", "http_200": "http_200", "http_404": "http_404",
		"draft_acceptance": "accept_rate", "system_efficiency": "spec_efficiency", "accepted": "spec_accepted", "draft": "spec_drafted",
		"emitted": "spec_emitted", "weights_s": "weights_s", "model_mem": "weights_gib", "model_load_s": "model_load_s", "kv_mem": "kv_gib",
		"cuda_blocks": "gpu_blocks", "max_concurrency": "max_concurrency", "free": "fault_free_gib", "need": "fault_need_gib",
		"limit_ms": "fault_limit_ms", "ran_ms": "fault_ran_ms", "exit": "fault_exit", "holder_pid": "fault_holder_pid",
		"prefix_queries": "prefix_queries_total", "prefix_hits": "prefix_hits_total",
	}[name]; ok && !(c.kind == "k8s" && name == "exit") && !(c.id == "100" && name == "elapsed") {
		return num(s.figure(figure)), true
	}
	switch name {
	case "accept_pct":
		return pct(s.figure("accept_rate")), true
	case "prefix_hit", "mm_hit", "prefix_hit_gpu", "prefix_hit_cpu":
		return pct(s.figure(name)), true
	case "cache_hit":
		return pct(s.figure("cache_hit")) + "%", true
	case "cache_hit_pct":
		return pct(s.figure("cache_hit")), true
	case "tp_size", "port", "mem_fraction_static", "max_total_tokens":
		switch {
		case c.kind == "k8s":
			return s.noted(`port (\d+)`), true
		case s.primary().Class == string(metrics.CausePortInUse):
			return num(s.figure("fault_port")), true
		}
		return s.start().Flags[name], true
	case "util":
		return or2(s.figure("fault_utilization"), s.figure("utilization")), true
	case "total":
		if s.figure("fault_total_gib") != nil || s.figure("total_gib") != nil {
			return or2(s.figure("fault_total_gib"), s.figure("total_gib")), true
		}
		return s.inDetail("total="), true
	case "available":
		return s.inDetail("available="), true
	case "model":
		return or(s.start().Model, ""), true
	case "lines":
		if c.kind == "client" && c.id == "154" {
			return s.noted(`\((\d+) lines\)`), true
		}
		return strconv.Itoa(bytes.Count(c.data, []byte("\n"))), true
	case "records_ok":
		return fmt.Sprint(*s.Rows), true
	case "torn_tail":
		return map[bool]string{true: "yes", false: "no"}[*s.TornTail], true
	case "last_complete_id":
		return s.noted(`id (\d+)`), true
	case "where":
		return s.noted(`(/dev/shm)`), true
	case "attempts":
		return s.noted(`attempt (\d+)`), true
	case "backoff":
		return strings.ReplaceAll(s.noted(`try (\d+ of \d+)`), " of ", "/"), true
	case "sleep":
		return s.noted(`sleeps (\d+)`), true
	case "phase":
		if strings.Contains(or(s.Phase, ""), "Responding") {
			return "generate", true
		}
		return or(s.Phase, ""), true
	case "prompts", "progress":
		return s.progress(), true
	case "load":
		if s.start().Phases != nil && s.start().Phases[0].Name == "loading weights" {
			return "9/9", true // the bar was full when its phase ended
		}
		return s.progress(), true
	case "elapsed", "eta":
		v := s.figure(map[string]string{"elapsed": "job_elapsed_s", "eta": "job_left_s"}[name])
		return fmt.Sprintf("%d:%02d:%02d", int(*v)/3600, int(*v)/60%60, int(*v)%60), true
	case "rate":
		return num(s.figure("job_rate")) + "it/s", true
	case "engine":
		for name := range s.start().Figures {
			if n, ok := strings.CutPrefix(name, "engine"); ok && strings.HasSuffix(n, "_running") {
				return strings.TrimSuffix(n, "_running"), true
			}
		}
	case "counts":
		var b strings.Builder
		for i := 0; s.figure(fmt.Sprintf("counts%d_running", i)) != nil; i++ {
			fmt.Fprintf(&b, "%s[%s,%s]", []string{"", ","}[min(i, 1)], num(s.figure(fmt.Sprintf("counts%d_waiting", i))), num(s.figure(fmt.Sprintf("counts%d_running", i))))
		}
		return "[" + b.String() + "]", true
	case "shm_wait":
		return fmt.Sprintf("%s times (%s s)", num(s.figure("shm_waits")), num(s.figure("shm_wait_s"))), true
	case "stats":
		none := s.figure("batch_lines") == nil || *s.figure("batch_lines") == 0
		if strings.HasPrefix(c.kind, "vllm") {
			return map[bool]string{true: "unknown", false: "known"}[none], true
		}
		return map[bool]string{true: "none", false: "some"}[none], true
	case "last_line":
		if *s.figure("batch_lines") == *s.figure("prefill_lines") {
			return "prefill", true
		}
		return "decode", true
	case "ready":
		return map[bool]string{true: "yes", false: "no"}[s.start().ReadyAt != nil || or(s.Phase, "") == "ready"], true
	case "state":
		return s.state(want), true
	case "api":
		return map[bool]string{true: "output_handler failed"}[strings.Contains(s.detail(), "output_handler failed")], true
	case "ranks":
		if scope == "cp" {
			return s.layout(c, "cp"), true
		}
		return s.ranks(scope), true
	case "pp", "tp":
		return s.layout(c, name), true
	case "rank":
		return or(s.primary().Rank, ""), true
	case "first_rank":
		return strings.Fields(or(s.primary().Rank, "-"))[0], true
	case "pool":
		return map[bool]string{true: "full"}[strings.Contains(s.detail(), "[full]")], true
	case "leak":
		a, _ := strconv.Atoi(s.inDetail("available_size="))
		b, _ := strconv.Atoi(s.inDetail("max_total_num_tokens="))
		return fmt.Sprintf("%+d", a-b), true
	case "op":
		return s.inDetail("OpType="), true
	case "seq":
		return s.inDetail("SeqNum="), true
	case "timeout_ms":
		if c.kind == "kernel" {
			return s.noted(`timeout (\d+)`), true
		}
		return s.inDetail("Timeout(ms)="), true
	case "last_completed":
		return s.inDetail("last completed NCCL work: "), true
	case "size":
		return s.inDetail("(size "), true
	case "room":
		return s.inDetail("bootstrap_room="), true
	case "avail_free":
		return s.inDetail("Free mem : "), true
	case "consequence":
		for _, x := range s.Causes {
			if !x.Primary && strings.Contains(strings.ToLower(or(x.Detail, "")), "sigquit") {
				return "sigquit", true
			}
		}
	case "process":
		if c.kind != "kernel" {
			return "sglang::scheduler_" + or(s.primary().Rank, ""), true
		}
	case "worker":
		for _, x := range s.Causes {
			if strings.Contains(or(x.Rank, ""), "VllmWorker") {
				return *x.Rank, true
			}
		}
	case "holder":
		return s.inDetail("name='"), true
	case "checked_at":
		return s.noted(`checked at (\S+)`), true
	case "CUDA_LAUNCH_BLOCKING":
		return map[bool]string{true: "1"}[strings.Contains(strings.Join(s.Advice, " "), "CUDA_LAUNCH_BLOCKING=1")], true
	case "pid":
		if c.kind == "kernel" {
			return s.noted(`(?:pid=|process )(\d+)`), true
		}
		return s.noted(`(?:pid |: )(\d+)(?:\)| Killed)`), true
	case "oom_table_rows":
		return s.noted(`(\d+) rows of the OOM`), true
	case "xid", "first_xid":
		return s.noted(`Xid \([^)]*\): (\d+)`), true
	case "every_s":
		return s.noted(`every (\d+) s`), true
	case "bus":
		return or(s.primary().Rank, ""), true
	case "name":
		return s.noted(`(?:name[= ]|process |of )(\S+?)[,)\s]`), true
	case "gpu_index":
		return strings.TrimPrefix(or(s.primary().Rank, ""), "GPU"), true
	case "heartbeat_diff_ms":
		return s.noted(`diff (\d+)`), true
	case "oom_killed":
		return s.noted(`Killed process \d+ \((\S+)\)`), true
	case "scope":
		return map[bool]string{true: "memory-cgroup"}[strings.HasPrefix(s.detail(), "Memory cgroup")], true
	case "anon_rss_kB":
		return s.noted(`anon-rss:(\d+)kB`), true
	case "oom_score_adj":
		return s.noted(`oom_score_adj:(\d+)`), true
	case "retracted_per_event":
		return num(s.figure("retracted_requests")), true
	case "new_token_ratio":
		return num(s.figure("new_token_ratio")), true
	case "restarts":
		return s.noted(`(\d+) restarts`), true
	case "exit":
		return s.noted(`exit code (\d+)`), true
	case "reason":
		return s.noted(`Terminated (\w+)`), true
	case "pod":
		return s.noted(`pod (\S+):`), true
	case "status":
		return s.noted(`pod \S+: (\w+)`), true
	}
	return "", false
}

func or2(a, b *float64) string {
	if a == nil {
		a = b
	}
	return num(a)
}

// state compares the index's word for a state with state, phase and causes.
func (s seen) state(want string) string {
	word := regexp.MustCompile(`^[\w/-]+`).FindString(want)
	switch {
	case word == "jit-compiling" && s.primary().Class == string(metrics.CauseJITCompiling),
		word == "scheduler/detokenizer" && or(s.State, "") == string(metrics.ServerHung),
		word == "generating" && or(s.State, "") == string(metrics.ServerServing) && *s.GenTPS > 0,
		word == "starting" && or(s.State, "") == string(metrics.ServerStarting):
		return want
	}
	if or(s.State, "") != string(metrics.ServerStarting) {
		return "state " + or(s.State, "")
	}
	return strings.Fields(or(s.Phase, "-"))[0]
}

func (s seen) ranks(scope string) string {
	if len(s.Causes) == 0 {
		return num(s.figure("ranks"))
	}
	var out []string
	for _, c := range s.Causes {
		name := strings.TrimPrefix(or(c.Rank, ""), "rank ")
		if name != "" && !strings.Contains(","+strings.Join(out, ",")+",", ","+name+",") {
			out = append(out, name)
		}
	}
	return strings.Join(out, ",")
}

func TestCases(t *testing.T) {
	pair := regexp.MustCompile(`(?:\b(DP\d|PP\d|gpu\d|before|cp|missing)(?: TP\d)?:? )?([A-Za-z_][A-Za-z_0-9]*(?:\(cpu\))?)(?:\([a-z_]+\))?:?=`)
	checked, rows := 0, 0
	for _, c := range readCases(t) {
		rows++
		t.Run(c.id, func(t *testing.T) {
			s := seen{explained(t, c.data)}
			group, _, _ := strings.Cut(c.kind, "-")
			if got := Kind(or(s.Kind, "")); !contains(kinds[group], got) {
				t.Errorf("kind %q for %s", got, c.kind)
			}
			at := pair.FindAllStringSubmatchIndex(c.expect, -1)
			scope := ""
			for i, m := range at {
				end := len(c.expect)
				if i+1 < len(at) {
					end = at[i+1][0]
				}
				name := c.expect[m[4]:m[5]]
				want := strings.TrimRight(strings.TrimSpace(c.expect[m[1]:end]), ";,. ")
				if j := strings.IndexAny(want, ";"); j > 0 {
					want = want[:j]
				}
				if m[2] >= 0 {
					scope = c.expect[m[2]:m[3]]
				}
				if prose[c.id+" "+name] != "" || prose[c.id+" "+scope+" "+name] != "" {
					continue
				}
				got, ok := s.value(c, scope, name, want)
				if !ok {
					t.Errorf("%s %s=%s: no extractor for this name", scope, name, want)
					continue
				}
				if !same(got, want) {
					t.Errorf("%s %s = %q, want %q", scope, name, got, want)
				}
				checked++
			}
		})
	}
	if rows != 88 || checked < 250 {
		t.Errorf("%d rows, %d pairs were checked", rows, checked)
	}
}

func contains(list []Kind, k Kind) bool {
	for _, x := range list {
		if x == k {
			return true
		}
	}
	return false
}

// same compares numbers by value and words by how the longer one begins.
func same(got, want string) bool {
	if got == want {
		return true
	}
	if strings.HasPrefix(want, "unknown") || strings.HasPrefix(want, "N/A") || strings.HasPrefix(want, "null") {
		return got == "unknown" || got == ""
	}
	first := strings.Fields(want + " ")[0]
	first = strings.TrimRight(strings.TrimSuffix(strings.TrimSuffix(first, "GiB"), "x"), ";,")
	a, err := strconv.ParseFloat(got, 64)
	b, err2 := strconv.ParseFloat(first, 64)
	if err == nil && err2 == nil {
		return math.Abs(a-b) <= 1e-9*math.Abs(b)
	}
	for _, end := range []string{" ", "(", ","} {
		if strings.HasPrefix(want, got+end) {
			return got != ""
		}
	}
	return got != "" && strings.Contains(got, want) // the index shortens names
}
