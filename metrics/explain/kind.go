package explain

import (
	"bytes"
	"encoding/json"
	"regexp"

	"github.com/runvigil/runvigil/metrics/clientlog"
	"github.com/runvigil/runvigil/metrics/k8s"
	"github.com/runvigil/runvigil/metrics/kernel"
	"github.com/runvigil/runvigil/metrics/nvidia"
	"github.com/runvigil/runvigil/metrics/prom"
	"github.com/runvigil/runvigil/metrics/sglang"
	"github.com/runvigil/runvigil/metrics/vllm"
)

// Kind is what sort of file it is.
type Kind string

// The kinds. KindSGLang and KindVLLM choose the engine of a server's log as
// well; a report calls both server-log.
const (
	KindAuto      Kind = ""
	KindServerLog Kind = "server-log"
	KindSGLang    Kind = "sglang"
	KindVLLM      Kind = "vllm"
	KindGPU       Kind = "gpu"
	KindMetrics   Kind = "metrics"
	KindInfo      Kind = "server-info"
	KindLoads     Kind = "loads"
	KindKernel    Kind = "kernel-log"
	KindClient    Kind = "client-log"
	KindRows      Kind = "jsonl"
	KindKube      Kind = "kubectl"
)

// Kinds lists what --kind may be.
func Kinds() []Kind {
	return []Kind{KindServerLog, KindSGLang, KindVLLM, KindGPU, KindMetrics, KindInfo, KindLoads, KindKernel, KindClient, KindRows, KindKube}
}

// ParseKind reads the value of --kind.
func ParseKind(s string) (Kind, bool) {
	for _, k := range Kinds() {
		if string(k) == s {
			return k, true
		}
	}
	switch s {
	case "nvidia-smi", "csv", "xml", "dmon", "pmon", "gpustat", "rocm-smi":
		return KindGPU, true
	case "kernel", "dmesg":
		return KindKernel, true
	case "client":
		return KindClient, true
	case "log", "server":
		return KindServerLog, true
	case "server_info", "info":
		return KindInfo, true
	case "rows":
		return KindRows, true
	case "k8s", "kube", "kubernetes":
		return KindKube, true
	}
	return KindAuto, false
}

// marks counts what each parser finds of its own in a piece of a file.
type marks struct {
	sglang, vllm float64 // engine's own records
	faults       int     // of a server, by whichever reads more
	kernel       int
	kernelLines  int
	lines        int
	promLines    int
	serverWords  bool
	words        [2]int // that only SGLang, only vLLM would put there
}

var (
	promLine   = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*(?:\{[^}]*\}?)?\s+[-+0-9.eEINFan]+(?:\s+\d+)?\s*$`)
	kernelLine = regexp.MustCompile(`^(?:<\d+>)?(?:\[\s*\d+\.\d{6}\] )|^\S.{0,60}\bkernel: `)
	// serverWord are words that only a server or its libraries put beside a fault.
	serverWord = regexp.MustCompile(`ProcessGroupNCCL|\[rank\d+\]:|/sglang/|/vllm/|sglang::|VLLM::|EngineCore|APIServer|Scheduler hit|scheduler\.py|WorkerProc|VllmWorker|RayWorkerWrapper|Received sigquit|EngineDeadError|AsyncLLM|` +
		`(?:INFO|ERROR): {4,5}(?:Started server|Waiting for app|Application st|Finished server|Uvicorn|\[Errno)|launcher\.py:\d+\]|child proc(?:ess|es)|launch_server|vllm serve|api_server\.py`)
	sglangWord = regexp.MustCompile(`/sglang/|launch_server|sglang::|sgl_kernel|Scheduler hit an exception|sigquit|mem[-_]fraction[-_]static|scheduler\.py|` +
		`\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: [DPCET]+\d+)*\] `)
	vllmWord = regexp.MustCompile(`/vllm/|vllm serve|VLLM::|EngineCore|gpu_memory_utilization|VllmWorker|WorkerProc|launcher\.py:\d+\]|AsyncLLM|multiproc_executor`)
	// kubeWord begins a line of kubectl's output.
	kubeWord = regexp.MustCompile(`(?m)^\W{0,4}(?:NAME +READY|NAMESPACE +NAME|LAST SEEN +TYPE|(?:Name|Namespace|Node|Status|Containers|Events|Last State|State|Exit Code|Restart Count|` +
		`apiVersion|containerStatuses|restartCount|exitCode|lastState|terminated|reason|Reason|Started|Finished):(?: |$)|(?:Warning|Normal) {2,}\w+ )`)
)

func count(piece []byte) marks {
	var m marks
	for line := range bytes.Lines(piece) {
		line = bytes.TrimRight(line, "\r\n \x00")
		if len(line) == 0 {
			continue
		}
		m.lines++
		if len(line) > 4096 {
			continue
		}
		if bytes.HasPrefix(line, []byte("# HELP ")) || bytes.HasPrefix(line, []byte("# TYPE ")) || promLine.Match(line) {
			m.promLines++
		}
		if kernelLine.Match(line) {
			m.kernelLines++
		}
	}
	var s sglang.Parser
	faults := [2]int{}
	sg := func(e *sglang.Event) {
		switch e.Kind {
		case sglang.KindBatch, sglang.KindRetraction, sglang.KindHealth, sglang.KindDump:
			m.sglang += 3
		case sglang.KindStartup:
			switch e.Startup.Step {
			case sglang.StepArgs, sglang.StepSummary, sglang.StepReady:
				m.sglang += 5
			case sglang.StepProcess, sglang.StepListening, sglang.StepWeightsProgress, sglang.StepCaptureProgress, sglang.StepJIT:
				m.sglang += 0.1
			default:
				m.sglang += 2
			}
		case sglang.KindFault:
			faults[0]++
		}
	}
	s.Feed(piece, sg)
	s.Flush(sg)
	var v vllm.Parser
	vl := func(e *vllm.Event) {
		if e.Level != 0 && e.Proc != "" {
			m.vllm += 0.5
		}
		switch e.Kind {
		case vllm.KindBatch, vllm.KindSpec, vllm.KindCounts, vllm.KindPrefix, vllm.KindDump, vllm.KindWait, vllm.KindIteration, vllm.KindPreempt:
			m.vllm += 3
		case vllm.KindStartup:
			switch {
			case e.Startup.Step == vllm.StepProcess || e.Startup.Step == vllm.StepReady:
				m.vllm += 0.1
			case e.Level != 0 || e.Startup.Step != vllm.StepListening:
				m.vllm += 1
			}
		case vllm.KindFault:
			faults[1]++
			if e.Level != 0 {
				m.vllm += 0.5
			}
		}
	}
	v.Feed(piece, vl)
	v.Flush(vl)
	m.faults = max(faults[0], faults[1])
	m.serverWords = serverWord.Match(piece)
	m.words = [2]int{len(sglangWord.FindAllIndex(piece, 200)), len(vllmWord.FindAllIndex(piece, 200))}
	var k kernel.Parser
	kl := func(e *kernel.Event) { m.kernel++ }
	k.Feed(piece, kl)
	k.Flush(kl)
	return m
}

// Recognise names the kind of a file from its bytes; KindAuto for none that is
// known. head may be a file's beginning and end, joined.
func Recognise(head []byte) Kind {
	data := bytes.Trim(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n\x00")
	if len(data) == 0 {
		return KindAuto
	}
	if data[0] == '{' || data[0] == '[' {
		if k := recogniseJSON(data); k != KindAuto {
			return k
		}
	}
	m := count(head)
	engine := max(m.sglang, m.vllm)
	if m.promLines >= 2 && 2*m.promLines > m.lines && engine < 3 {
		return KindMetrics
	}
	if engine >= 2 {
		return m.engine()
	}
	format := nvidia.Sniff(head)
	gpu, isGPU := nvidia.ParseAny(head)
	if isGPU && format != nvidia.FormatCSV && len(gpu.Rows)+len(gpu.Procs) > 0 {
		return KindGPU
	}
	kube := k8s.Parse(head)
	kubeLines := len(kubeWord.FindAllIndex(head, 10))
	isKube := len(kube.Pods)+len(kube.Events) > 0 && kubeLines > 0
	switch {
	case m.kernel > 0 && (2*m.kernelLines >= m.lines || m.kernel*3 >= m.lines || m.faults == 0 && !isKube && !isGPU):
		return KindKernel
	case isKube && (m.faults == 0 && engine == 0 || kubeLines >= 3 && !m.serverWords):
		return KindKube
	case m.kernelLines >= 3 && 2*m.kernelLines > m.lines:
		return KindKernel
	case m.faults > 0 && m.serverWords, engine > 0 && m.serverWords:
		return m.engine()
	case isKube:
		return KindKube
	case isGPU && (len(gpu.Rows)+len(gpu.Procs) > 0 || gpu.ProcsUnknown || m.lines <= 20):
		return KindGPU
	case isGPU && format != nvidia.FormatCSV:
		return KindGPU
	}
	if infoWord.Match(head) && len(pair.FindAllIndex(head, m.lines+8)) > m.lines/2 {
		return KindInfo // its beginning is cut
	}
	access := len(accessLine.FindAllIndex(head, m.lines))
	if isClient(head) && 2*access < m.lines {
		return KindClient
	}
	if access > 0 {
		return m.engine()
	}
	return KindAuto
}

// engine chooses whose log it is.
func (m marks) engine() Kind {
	words := m.words[0] - m.words[1]
	switch {
	case max(m.sglang, m.vllm) < 1 && words > 0:
		return KindSGLang
	case max(m.sglang, m.vllm) < 1 && words < 0:
		return KindVLLM
	case m.sglang > m.vllm:
		return KindSGLang
	case m.vllm > m.sglang:
		return KindVLLM
	case words > 0:
		return KindSGLang
	case words < 0:
		return KindVLLM
	}
	return KindServerLog
}

// accessLine is a line of an HTTP server about a request.
var accessLine = regexp.MustCompile(`INFO:.{0,80}"[A-Z]+ \S+ HTTP/1\.[01]\\?" \d{3}`)

// clientWord is what the libraries of clients print while all is well.
var clientWord = regexp.MustCompile(`HTTP Request: (?:POST|GET) https?://|INFO[: ].{0,40}\b(?:httpx|openai|aiohttp)\b|urllib3\.connectionpool`)

func isClient(head []byte) bool {
	var c clientlog.State
	c.Feed(head)
	c.Flush()
	_, bar := c.Progress()
	return bar || clientWord.Match(head) || len(c.Faults()) > 0 || c.OnlyHeader() || c.Finished() != "" || c.Unreachable() > 0
}

// isCollected tells records of a log collector, each of which holds a line of
// another kind: docker's json-file and exports of cloud consoles.
func isCollected(data []byte) bool {
	head := data[:min(len(data), 4<<10)]
	if i := bytes.IndexByte(head, '}'); i > 0 {
		head = head[:i]
	}
	has := func(s string) bool { return bytes.Contains(head, []byte(s)) }
	if has(`"message":`) && (has(`"levelname":`) || has(`"level":`) || has(`"severity":`) || has(`"asctime":`)) {
		return true // a structured log
	}
	return has(`"log":`) && (has(`"stream":`) || has(`"time":`)) || has(`"textPayload":`) || has(`"insertId":`) ||
		bytes.HasPrefix(data, []byte(`{"log":"`))
}

func recogniseJSON(data []byte) Kind {
	if isCollected(data) {
		return KindAuto
	}
	if isPod(data) && json.Valid(data) {
		return KindKube
	}
	if json.Valid(data) {
		if l, err := prom.ParseLoads(data); err == nil && (len(l.Ranks) > 0 || l.Running.OK) {
			return KindLoads
		}
		if i, err := prom.ParseInfo(data); err == nil && (!i.Empty() || i.Version != "" && bytes.Count(data, []byte{':'}) < 4) {
			return KindInfo
		}
		if data[0] == '[' {
			return KindAuto
		}
		return KindRows
	}
	// Several values, or one that is cut.
	rows, lines := 0, 0
	for line := range bytes.Lines(data) {
		line = bytes.Trim(line, " \t\r\n\x00")
		if len(line) == 0 {
			continue
		}
		lines++
		if line[0] == '{' && json.Valid(line) {
			rows++
		}
		if lines >= 1000 {
			break
		}
	}
	switch {
	case rows == 0 && infoWord.Match(data):
		return KindInfo
	case rows > 0 && 2*rows >= lines || data[0] == '{' && lines == 1:
		return KindRows
	}
	return KindAuto
}
