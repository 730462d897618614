package model

import (
	"fmt"
	"time"
)

// Scenario is a state of the node to begin with: what happened before the
// node's present, from which the model works it out.
type Scenario struct {
	Name  string // as in demo:NAME
	Title string // one line for a list
	// Job is the number of rows that the operator wants in all parts together.
	Job int

	before     time.Duration // virtual time from the first event to the present
	seed       uint64        // of request ids and texts
	noise      uint64        // of the unsteadiness of a step
	clientLoad time.Duration // what the client takes to read its prompts
	parts      func(*Node) []*part
	script     []moment
	history    func(*Node) []Start
	vllm       bool // its server is vLLM
}

// moment is something that happens at a time after the first event, before the
// node's present or after it.
type moment struct {
	at time.Duration
	do func(*Node)
}

// The command lines of the run.
var (
	serverArgv = []string{
		"python3", "-m", "sglang.launch_server", "--model-path", "/data/models/Kimi-K2.5", "--trust-remote-code",
		"--tp-size", "8", "--host", "127.0.0.1", "--port", "8000", "--mem-fraction-static", "0.88",
		"--enable-hierarchical-cache", "--hicache-size", "48",
	}
	clientArgv = []string{
		"python3", "run_inference.py", "--url", "http://127.0.0.1:8000/generate", "--concurrency", "150",
		"--concurrency-long", "32", "--parts", "B1_glaive,B2_opencodeinstruct,B3_longform", "--out", rowsFolder, "--resume",
	}
	vllmArgv = []string{
		"python3", "-m", vllmModule, "--model", "/data/models/Kimi-K2.5", "--trust-remote-code", "--tensor-parallel-size", "8",
		"--host", "127.0.0.1", "--port", "8000", "--gpu-memory-utilization", "0.92", "--max-model-len", "131072",
	}
	vllmClientArgv = []string{
		"python3", "run_inference.py", "--url", "http://127.0.0.1:8000/v1/completions", "--concurrency", "150",
		"--parts", "B1_glaive,B2_opencodeinstruct,B3_longform", "--out", rowsFolder, "--resume",
	}
	runEnv = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/root", "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7"}
)

// The seeds were chosen by search, so that the run of the model goes as the
// real one went: with partSeed and noise5 the highest Decode line is that of
// the story, with seed5 the rows that land within 19 minutes are nearest to it.
// What they choose between is which prompts are long and how unsteady a step is;
// the mechanisms are the same with any seed.
const (
	noise5   = 8624
	partSeed = 0x78D4FE5947DD02C6
	start5   = 2 * time.Minute // from the server's start to the client's
	seed5    = 0xA46B02245B9F3AF4
)

// with changes flags of a command line: a value, or presence for "".
func with(argv []string, flag, value string) []string {
	out := append([]string(nil), argv...)
	for i, a := range out {
		if a == flag {
			if value != "" {
				out[i+1] = value
			}
			return out
		}
	}
	out = append(out, flag)
	if value != "" {
		out = append(out, value)
	}
	return out
}

func launch(argv []string) func(*Node) {
	return func(n *Node) { n.Launch(Launch{Argv: argv, Env: runEnv, Dir: "/data/eagle3"}) }
}

func clientRun(env ...string) func(*Node) {
	return func(n *Node) {
		n.StartClient(ClientLaunch{Argv: clientArgv, Env: append(append([]string(nil), runEnv...), env...), Dir: jobFolder})
	}
}

// job makes the parts with the rows that the second had before the client.
func job(rows, target int) func(*Node) []*part {
	return func(n *Node) []*part {
		return []*part{
			{name: "B1_glaive", target: 10_000, mean: 1570, prompt: 310, seed: 0xB1, rows: 10_000, changed: n.epoch.Add(-37 * time.Minute)},
			{name: "B2_opencodeinstruct", target: target, mean: 4000, prompt: 420, seed: partSeed, rows: rows, changed: n.epoch.Add(-11 * time.Minute)},
		}
	}
}

// run is the story's run up to a time after the client's start.
func run(name, title string, since time.Duration, more ...moment) Scenario {
	return Scenario{
		Name: name, Title: title, Job: 88_000, before: start5 + since, seed: seed5, noise: noise5, clientLoad: 11800 * time.Millisecond,
		parts: job(1374, 10_000), history: starts,
		script: append([]moment{{0, launch(serverArgv)}, {start5, clientRun()}}, more...),
	}
}

// runVLLM is a run on the second engine, of which nothing earlier is known.
func runVLLM(name, title string, since time.Duration, argv []string, env []string, concurrency string, more ...moment) Scenario {
	s := run(name, title, since, more...)
	s.vllm = true
	s.history = func(*Node) []Start { return nil }
	s.script[0].do = func(n *Node) {
		n.Launch(Launch{Argv: argv, Env: append(append([]string(nil), env...), runEnv...), Dir: "/data/eagle3"})
	}
	s.script[1].do = func(n *Node) {
		n.StartClient(ClientLaunch{Argv: with(vllmClientArgv, "--concurrency", concurrency), Env: append([]string{"PYTHONUNBUFFERED=1"}, runEnv...), Dir: jobFolder})
	}
	return s
}

func kill(role Role) func(*Node) {
	return func(n *Node) { n.Signal(n.pidOf(role), SIGKILL) }
}

// Scenarios lists all, the default first.
func Scenarios() []Scenario {
	const long = 40 * time.Minute
	healthy := run("healthy", "a settled run without anything to say", 3*time.Hour)
	healthy.script = []moment{{0, launch(with(serverArgv, "--enable-metrics", ""))}, {start5, clientRun("PYTHONUNBUFFERED=1")}}

	idle := run("idle", "server up, the job at its target", 70*time.Minute)
	idle.Job, idle.parts = 20_000, job(9_700, 10_000)

	loading := run("loading", "a server half-way through its start", 0)
	loading.before = 100 * time.Second
	loading.script = []moment{{0, func(n *Node) {
		n.Launch(Launch{Argv: serverArgv, Env: runEnv, Dir: "/data/eagle3", Scale: 0.3})
	}}}

	oom := run("oom", "mem-fraction-static 0.93: crashed in its first large prefill", 40*time.Second)
	oom.script[0].do = launch(with(serverArgv, "--mem-fraction-static", "0.93"))

	hang := run("hang", "no token for three minutes, /health still 200", long,
		moment{start5 + long - 3*time.Minute, func(n *Node) { n.srv.eng.hang() }})
	hang.script[0].do = func(n *Node) {
		n.Launch(Launch{Argv: with(serverArgv, "--watchdog-timeout", "3600"), Dir: "/data/eagle3",
			Env: append([]string{"SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION=0"}, runEnv...)})
	}

	lost := run("gpu-lost", "one GPU has fallen off the bus", long,
		moment{start5 + long - 4*time.Minute, func(n *Node) { n.loseGPU(5) }})
	lost.script[0].do = launch(with(serverArgv, "--watchdog-timeout", "3600"))

	held := run("gpu-held", "an orphan of the last server holds one GPU, the next start fails", long,
		moment{start5 + long - 6*time.Minute, func(n *Node) { n.orphanRank(3) }},
		moment{start5 + long - 4*time.Minute, launch(serverArgv)})

	twice := run("client-twice", "a client of an earlier run still appends to the same file", long,
		moment{start5 + long - 25*time.Minute, clientRun()})

	wasted := run("work-lost", "the client gives up on requests that the server still answers", long)
	wasted.script = []moment{{0, launch(with(serverArgv, "--enable-metrics", ""))}, {start5, func(n *Node) {
		n.StartClient(ClientLaunch{Argv: with(clientArgv, "--timeout", "600"), Env: append([]string{"PYTHONUNBUFFERED=1"}, runEnv...), Dir: jobFolder})
	}}}

	const hour = time.Hour
	restless := run("restless", "hours of ordinary trouble: pauses, bursts, a part that ends, a client that is resumed", hour,
		moment{start5 + hour + 20*time.Minute, func(n *Node) { n.srv.eng.stall(44 * time.Second) }},
		moment{start5 + hour + 45*time.Minute, func(n *Node) { n.burst(60) }},
		moment{start5 + 2*hour + 10*time.Minute, func(n *Node) { n.Signal(n.cli.pid, SIGINT) }},
		moment{start5 + 2*hour + 10*time.Minute + 4*time.Second, clientRun()},
		moment{start5 + 3*hour, func(n *Node) { n.srv.eng.stall(30 * time.Second) }},
		moment{start5 + 5*hour, func(n *Node) { n.burst(200) }})
	restless.parts = func(n *Node) []*part {
		return append(job(8_300, 10_000)(n), &part{name: "B3_longform", target: 20_000, mean: 4000, prompt: 700, seed: partSeed + 1})
	}

	return []Scenario{
		run("story", "19 minutes into the run: settled, the client's log empty", 19*time.Minute),
		run("ramp", "2 minutes into the run: fast, because requests are young", 2*time.Minute),
		healthy,
		idle,
		loading,
		oom,
		hang,
		run("client-dead", "client killed six minutes ago, server idle", long,
			moment{start5 + long - 6*time.Minute, kill(ClientMain)}),
		run("no-server", "server killed five minutes ago, client retries", long,
			moment{start5 + long - 5*time.Minute, kill(ServerMain)}),
		lost,
		held,
		twice,
		wasted,
		restless,
		runVLLM("vllm", "a settled run on vLLM", long, vllmArgv, nil, "150"),
		runVLLM("vllm-hang", "vLLM: 7 requests run, no token for three minutes, /health 200", long, vllmArgv,
			[]string{"VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS=86400"}, "7",
			moment{start5 + long - 3*time.Minute, func(n *Node) { n.srv.eng.hang() }}),
		runVLLM("vllm-oom", "vLLM: gpu-memory-utilization 0.99, out of memory at start-up", 40*time.Second,
			with(vllmArgv, "--gpu-memory-utilization", "0.99"), nil, "150"),
	}
}

// Lookup finds a scenario by name.
func Lookup(name string) (Scenario, error) {
	for _, s := range Scenarios() {
		if s.Name == name {
			return s, nil
		}
	}
	return Scenario{}, fmt.Errorf("no scenario %q on the simulated node: see Scenarios for the list", name)
}

// starts are the four starts before the story's, as the operator noted them.
func starts(n *Node) []Start {
	at := func(before time.Duration) time.Time { return n.epoch.Add(-before) }
	gib := func(v float64) *float64 { return &v }
	plain := serverArgv[:len(serverArgv)-3]
	return []Start{
		{Number: 1, Argv: with(plain, "--mem-fraction-static", "0.85"), At: at(19 * time.Hour), Ended: at(5 * time.Hour),
			Outcome: "stopped", Capacity: 116_171, Running: [2]int{35, 50}, TokS: [2]float64{600, 850}, Note: "baseline; queue over 100"},
		{Number: 2, Argv: with(serverArgv, "--mem-fraction-static", "0.93"), At: at(290 * time.Minute), Ended: at(280 * time.Minute),
			Outcome: "crashed", Cause: "out of memory in the first large prefill, seconds after the first requests", Capacity: 231_120, Headroom: gib(0.82)},
		{Number: 3, Argv: serverArgv, At: at(270 * time.Minute), Ended: at(150 * time.Minute),
			Outcome: "stopped", Capacity: 159_277, Headroom: gib(5.47), Running: [2]int{34, 121}, TokS: [2]float64{606, 606}, Peak: 1317.32},
		{Number: 4, Argv: with(with(serverArgv, "--mem-fraction-static", "0.90"), "--kv-cache-dtype", "fp8_e4m3"), At: at(140 * time.Minute), Ended: at(12 * time.Minute),
			Outcome: "stopped", Capacity: 376_028, Running: [2]int{134, 150}, TokS: [2]float64{1300, 1450}, Note: "refused by the owner of the data: fp8 KV degrades the model noticeably"},
	}
}
