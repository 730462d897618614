package model

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The second engine: vLLM as it was at 0.11, in the words of its own log, with
// the same scheduler, memory and card underneath. Facts that differ are its
// flags, its phases, a line of figures every 10 seconds in place of one a batch,
// its routes and metrics, and how it ends.
const (
	vllmVersion = "0.11.2"
	// statsEvery is the interval of the line of figures.
	statsEvery = 10 * time.Second
	// graphBytes is what its captured graphs take.
	graphBytes = 966_367_642
	// samplerToken is what its warm-up of the sampler takes for each sequence:
	// logits of 163,840 words, sorted, with their places.
	samplerToken = 163_840 * 16
	// defaultSeqs and defaultBatched are its defaults on cards over 70 GiB.
	defaultSeqs    = 1024
	defaultBatched = 8192
)

// EngineCore is the role of vLLM's engine process.
const EngineCore Role = "engine-core"

const vllmModule = "vllm.entrypoints.openai.api_server"

// isVLLM tells whether a command line starts vLLM.
func isVLLM(argv []string) bool {
	for i, a := range argv {
		if a == vllmModule || i > 0 && a == "serve" && strings.HasSuffix(argv[i-1], "vllm") {
			return true
		}
	}
	return false
}

// vllmFlags are the flags that the simulated vLLM knows: true takes a value.
var vllmFlags = map[string]bool{
	"model": true, "served-model-name": true, "tensor-parallel-size": true, "host": true, "port": true, "gpu-memory-utilization": true,
	"kv-cache-dtype": true, "max-num-seqs": true, "max-num-batched-tokens": true, "max-model-len": true, "api-key": true, "seed": true,
	"swap-space": true, "dtype": true, "quantization": true, "block-size": true, "tokenizer": true, "uvicorn-log-level": true,
	"compilation-config": true, "speculative-config": true, "kv-cache-memory-bytes": true, "load-format": true, "download-dir": true,
	"trust-remote-code": false, "enforce-eager": false, "no-enforce-eager": false, "enable-prefix-caching": false,
	"no-enable-prefix-caching": false, "enable-chunked-prefill": false, "no-enable-chunked-prefill": false, "disable-log-stats": false,
	"disable-log-requests": false, "enable-log-requests": false, "enable-expert-parallel": false, "disable-custom-all-reduce": false, "help": false,
}

var vllmShort = map[string]string{"-tp": "tensor-parallel-size", "-h": "help", "-q": "quantization"}

// parseVLLM reads vLLM's command line: dash and underscore are equal, the last
// of a repeated flag holds.
func parseVLLM(argv []string) (Flags, error) {
	f := Flags{
		VLLM: true, TP: 1, Host: "0.0.0.0", Port: 8000, MemFraction: 0.9, KVDtype: "auto", MaxRunning: defaultSeqs, ChunkedSize: defaultBatched,
		ContextLen: 262_144, LogInterval: 40, Conservative: 1, LogLevel: "info", Metrics: true,
	}
	i := 0
	for i < len(argv) && !strings.HasPrefix(argv[i], "-") || i < len(argv) && argv[i] == "-m" {
		if argv[i] == "serve" && i+1 < len(argv) && !strings.HasPrefix(argv[i+1], "-") {
			f.ModelPath = argv[i+1]
		}
		if argv[i] == "-m" {
			i++
		}
		i++
	}
	for i < len(argv) {
		word, value, joined := strings.Cut(argv[i], "=")
		i++
		name, short := vllmShort[word]
		if !short {
			name = strings.ReplaceAll(strings.TrimPrefix(word, "--"), "_", "-")
		}
		takes, known := vllmFlags[name]
		if !known || !strings.HasPrefix(word, "-") {
			return f, fmt.Errorf("unrecognized arguments: %s", argv[i-1])
		}
		if takes && !joined {
			if i == len(argv) || isFlag(argv[i]) {
				return f, fmt.Errorf("argument --%s: expected one argument", name)
			}
			value = argv[i]
			i++
		}
		if err := f.setVLLM(name, value); err != nil {
			return f, err
		}
	}
	f.MaxPrefill = f.ChunkedSize
	if f.ServedName == "" {
		f.ServedName = f.ModelPath
	}
	return f, nil
}

func (f *Flags) setVLLM(name, value string) error {
	integer := func(to *int) error {
		v, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("argument --%s: invalid int value: '%s'", name, value)
		}
		*to = v
		return nil
	}
	switch name {
	case "model":
		f.ModelPath = value
	case "served-model-name":
		f.ServedName = value
	case "tensor-parallel-size":
		return integer(&f.TP)
	case "host":
		f.Host = value
	case "port":
		return integer(&f.Port)
	case "gpu-memory-utilization":
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("argument --%s: invalid float value: '%s'", name, value)
		}
		f.MemFraction = v
	case "kv-cache-dtype":
		f.KVDtype = value
	case "max-num-seqs":
		return integer(&f.MaxRunning)
	case "max-num-batched-tokens":
		return integer(&f.ChunkedSize)
	case "max-model-len":
		return integer(&f.ContextLen)
	case "api-key":
		f.APIKey = value
	case "disable-log-stats":
		f.Metrics = false
	case "help":
		f.Help = true
	}
	return nil
}

// vllmPool is what gpu-memory-utilization leaves for the KV cache: of the whole
// card, after context, weights, the peak of a prefill and the graphs.
func (f Flags) vllmPool(weights int64) int64 {
	return int64(float64(cardBytes*f.MemFraction)) - contextBytes - weights - activation(f.ChunkedSize) - graphBytes
}

// say writes one record of vLLM's own logger. Each line of a message repeats the
// prefix, and the break is CR LF.
func (s *server) say(role Role, level, place, format string, args ...any) {
	prefix := fmt.Sprintf("%s%s %s [%s] ", s.process(role), level, s.n.Now().Format("01-02 15:04:05"), place)
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\r\n"+prefix)
	s.write(Stdout, prefix+text+"\n")
}

// process is the part of a prefix that names who writes.
func (s *server) process(role Role) string {
	name := "APIServer"
	if role == EngineCore {
		name = "EngineCore_DP0"
	}
	if rank, ok := role.rank(); ok {
		if s.flags.TP == 1 {
			role, name = EngineCore, "EngineCore_DP0"
		} else {
			name = fmt.Sprintf("Worker_TP%d", rank)
		}
	}
	return fmt.Sprintf("(%s pid=%d) ", name, s.pids[role])
}

// vllmTitle is the title of a process of vLLM's, "" for one that keeps its own.
func (s *server) vllmTitle(role Role) string {
	if rank, ok := role.rank(); ok && s.flags.TP > 1 {
		return fmt.Sprintf("VLLM::Worker_TP%d", rank)
	}
	if _, ok := role.rank(); ok || role == EngineCore {
		return "VLLM::EngineCore"
	}
	return ""
}

// stats is the periodic line of figures: silent at this level once a line has
// shown no token and nothing has moved since, whatever still runs.
func (s *server) stats() {
	if !s.alive() || s.eng == nil || !s.flags.Metrics {
		return
	}
	e := s.eng
	c := &e.count
	seconds := statsEvery.Seconds()
	gen := float64(c.decodeTokens-s.told.gen) / seconds
	input := float64(c.fillTokens-s.told.input) / seconds
	s.told.gen, s.told.input = c.decodeTokens, c.fillTokens
	still := gen == 0 && input == 0
	if !still || !s.told.still {
		s.say(ServerMain, "INFO", "loggers.py:236",
			"Engine 000: Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f tokens/s, Running: %d reqs, Waiting: %d reqs, GPU KV cache usage: %.1f%%, Prefix cache hit rate: 0.0%%",
			input, gen, len(e.running)+len(e.batch), len(e.queue), 100*e.usage())
		c.lastGen, c.lastInput = gen, input
	}
	s.told.still = still
	s.n.after(statsEvery, s.stats)
}

// route is the request that a client of this server sends.
func (s *server) route() string {
	if s.flags.VLLM {
		return "POST /v1/completions"
	}
	return "POST /generate"
}

// serverLog is where the scenario's server writes.
func (n *Node) serverLog() string {
	if n.scenario.vllm {
		return vllmLog
	}
	return serverLog
}

// told is what the line of figures has told.
type told struct {
	gen, input int64
	still      bool
}

// stuck is how a hang shows in the log: workers that wait say so each minute,
// and the engine gives up after its own limit.
func (e *engine) stuck() {
	s := e.s
	if s.flags.TP > 1 {
		var wait func()
		wait = func() {
			if s.alive() && s.eng == e {
				s.say(EngineCore, "INFO", "shm_broadcast.py:466", "No available shared memory broadcast block found in 60 seconds. This typically happens when some processes are hanging or doing some time-consuming work (e.g. compilation).")
				s.n.after(time.Minute, wait)
			}
		}
		s.n.after(time.Minute, wait)
	}
	limit := 300 * time.Second
	if v, err := strconv.Atoi(s.setting("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS")); err == nil {
		limit = time.Duration(v) * time.Second
	}
	s.n.after(limit, func() {
		if s.alive() && s.eng == e {
			s.fatal("TimeoutError: RPC call to execute_model timed out.")
		}
	})
}

// fatal is the crash of a serving engine, with its wrappers: the front end ends
// in good order and says nothing of the cause.
func (s *server) fatal(cause string) {
	e := s.eng
	e.hung = true
	s.say(EngineCore, "ERROR", "dump_input.py:69", "Dumping input data for V1 LLM engine (v%s) with config: model='%s', tensor_parallel_size=%d, max_seq_len=%d,", vllmVersion, s.flags.ModelPath, s.flags.TP, s.flags.ContextLen)
	s.say(EngineCore, "ERROR", "dump_input.py:79", "Dumping scheduler stats: SchedulerStats(num_running_reqs=%d, num_waiting_reqs=%d, step_counter=0, current_wave=0, kv_cache_usage=%.6f)", len(e.running)+len(e.batch), len(e.queue), e.usage())
	s.say(EngineCore, "ERROR", "core.py:797", "EngineCore encountered a fatal error.")
	s.say(EngineCore, "ERROR", "core.py:797", "%s", traceback("/usr/local/lib/python3.12/dist-packages/vllm/v1/engine/core.py", "run_engine_core", "engine_core.run_busy_loop()", cause))
	s.say(ServerMain, "ERROR", "async_llm.py:525", "AsyncLLM output_handler failed.")
	s.say(ServerMain, "ERROR", "async_llm.py:525", "%s", traceback("/usr/local/lib/python3.12/dist-packages/vllm/v1/engine/async_llm.py", "output_handler", "outputs = await engine_core.get_output_async()",
		"vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."))
	s.n.after(2*time.Second, func() {
		if s.alive() {
			s.farewell()
			s.die(0)
		}
	})
}

func traceback(file, function, code, last string) string {
	return fmt.Sprintf("Traceback (most recent call last):\n  File \"%s\", line 786, in %s\n    %s\n%s", file, function, code, last)
}

// farewell is the HTTP server's orderly end.
func (s *server) farewell() {
	s.info("Shutting down")
	s.info("Waiting for application shutdown.")
	s.info("Application shutdown complete.")
	s.info("Finished server process [%d]", s.pids[ServerMain])
}

// vllmSignal ends vLLM: asked to stop it ends its engine at once.
func (s *server) vllmSignal(sig Signal) {
	switch sig {
	case SIGTERM, SIGINT:
		if s.listening() {
			s.say(ServerMain, "INFO", "launcher.py:110", "Shutting down FastAPI HTTP server.")
			s.farewell()
			s.die(0)
			return
		}
		s.raw(s.process(ServerMain) + "KeyboardInterrupt: terminated\n")
		s.die(128 + int(sig))
	case SIGKILL, SIGQUIT, SIGHUP:
		s.die(128 + int(sig))
	}
}

// workerDied is the executor missing one of its workers.
func (s *server) workerDied(rank int) {
	s.say(EngineCore, "ERROR", "multiproc_executor.py:227", "Worker proc VllmWorker-%d died unexpectedly, shutting down executor.", rank)
	if s.eng != nil {
		s.fatal("RuntimeError: cancelled")
		return
	}
	s.failVLLM(rank, "RuntimeError: cancelled")
}

// vllmOutOfMemory is a prefill that does not fit.
func (s *server) vllmOutOfMemory(need int64) {
	rank := 3 % s.flags.TP
	free := s.free()
	s.eng.hung = true
	s.n.after(300*time.Millisecond, func() {
		if !s.alive() {
			return
		}
		oom := outOfMemoryText(rank, need, free)
		s.say(Scheduler(rank), "ERROR", "multiproc_executor.py:671", "WorkerProc hit an exception.")
		s.say(Scheduler(rank), "ERROR", "multiproc_executor.py:671", "%s", traceback("/usr/local/lib/python3.12/dist-packages/vllm/v1/worker/gpu_model_runner.py", "execute_model", "model_output = self._model_forward(", oom))
		s.fatal("RuntimeError: Worker failed with error 'CUDA out of memory.', please check the stack trace above for the root cause")
	})
}

func outOfMemoryText(rank int, need, free int64) string {
	return fmt.Sprintf("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %.2f GiB. GPU %d has a total capacity of %.2f GiB of which %.2f GiB is free. Including non-PyTorch memory, this process has %.2f GiB memory in use.",
		gb(need), rank, gb(cardBytes), gb(free), gb(cardBytes-free))
}
