package model

import (
	"fmt"
	"strings"
	"time"
)

// server is one start of the inference server: its processes, phase and log.
type server struct {
	n       *Node
	argv    []string
	env     []string
	dir     string
	flags   Flags
	scale   float64
	pids    map[Role]int
	roles   []Role // in the order in which they came
	phase   Phase
	started time.Duration
	ready   time.Duration // 0 before
	ended   time.Duration
	eng     *engine
	held    int64 // activation memory that torch has kept
	pool    bool
	weights float64 // share loaded
	graphs  bool
	pinned  bool
	told    told // vLLM's line of figures
}

// Launch starts a server with new flags and returns the pid of its main
// process. Its lines, its crash or its exit come with Advance; a launch that
// the real engine would refuse (bad flag, GPUs taken, port taken, too little
// memory) fails in the same way, after the same phases.
func (n *Node) Launch(l Launch) int {
	taken := n.srv != nil && n.srv.alive() && n.srv.phase != PhaseImport || n.orphaned()
	s := &server{
		n: n, argv: l.Argv, env: l.Env, dir: l.Dir, scale: l.Scale, pids: map[Role]int{}, phase: PhaseImport, started: n.at,
	}
	if s.scale == 0 {
		s.scale = DemoScale
	}
	pid := l.PID
	if pid == 0 {
		pid = n.pid()
	}
	s.add(ServerMain, pid)
	var err error
	s.flags, err = ParseFlags(l.Argv)
	if n.srv != nil && n.srv.alive() {
		n.extra = append(n.extra, &other{server: n.srv})
	}
	n.srv = s
	s.begin(err, taken)
	return pid
}

func (n *Node) pid() int {
	n.nextPID += 1 + int(mix(uint64(n.nextPID))%7)
	return n.nextPID
}

func (s *server) add(role Role, pid int) {
	s.pids[role] = pid
	s.roles = append(s.roles, role)
}

func (s *server) alive() bool { return s.phase != PhaseDead }

// listening says whether the port is open: from the warm-up to the end.
func (s *server) listening() bool {
	return s.phase == PhaseWarmup || s.phase == PhaseReady || s.phase == PhaseDraining
}

// free is what is left on a card now.
func (s *server) free() int64 {
	free := int64(freeAtStart)
	switch s.phase {
	case PhaseImport, PhaseNone, PhaseDead:
		return cardBytes
	case PhaseDistributed:
		return free
	}
	weights := float64(weightBytes) * 8 / float64(max(1, s.flags.TP))
	free -= int64(weights * s.weights)
	if s.pool {
		free -= s.flags.poolBytes()
	}
	if s.graphs {
		free -= s.flags.workspace()
	}
	return free - s.held
}

// hold keeps the peak of a prefill, as torch's allocator does.
func (s *server) hold(bytes int64) { s.held = max(s.held, bytes) }

// die ends every process of the server at once.
func (s *server) die(code int) {
	if s.phase == PhaseDead {
		return
	}
	s.phase = PhaseDead
	s.ended = s.n.at
	for i := len(s.roles) - 1; i >= 0; i-- {
		status := 137
		if s.roles[i] == ServerMain {
			status = code
		}
		s.n.out.Exits = append(s.n.out.Exits, Exit{At: s.n.Now(), Role: s.roles[i], PID: s.pids[s.roles[i]], Code: status})
	}
	s.roles = nil
	s.eng = nil
	for _, c := range s.n.clients() {
		c.broken(s)
	}
	if s.n.srv == s {
		s.n.promote()
	}
}

// promote makes a server that has outlived the newest one the newest again.
func (n *Node) promote() {
	for i, o := range n.extra {
		if o.server != nil && o.server.alive() {
			n.srv = o.server
			n.extra = append(n.extra[:i:i], n.extra[i+1:]...)
			return
		}
	}
}

// aborted counts a request whose client has gone away, and lets the scheduler
// see it.
func (s *server) aborted() {
	if s != nil && s.eng != nil {
		s.eng.count.aborted++
		s.eng.wake()
	}
}

// signal delivers a signal to one of the server's processes.
func (s *server) signal(role Role, sig Signal) {
	if role != ServerMain {
		s.child(role, sig)
		return
	}
	if s.flags.VLLM {
		s.vllmSignal(sig)
		return
	}
	switch sig {
	case SIGKILL:
		s.die(137)
	case SIGQUIT:
		if s.listening() {
			s.warn(mainRank, "SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
		} else {
			s.warn(mainRank, "Received sigquit from a child process. It usually means the child failed.")
		}
		s.die(137)
	case SIGTERM:
		if s.phase == PhaseReady {
			s.term()
		} else if s.phase != PhaseDraining {
			s.die(143)
		}
	case SIGINT:
		if s.listening() {
			s.info("Shutting down")
			s.info("Waiting for application shutdown.")
			s.info("Application shutdown complete.")
			s.info("Finished server process [%d]", s.pids[ServerMain])
			s.die(0)
		} else {
			s.die(130)
		}
	case SIGHUP:
		s.die(129)
	}
}

// child takes one process out of the tree. The simulated version does not
// notice: the front end goes on listening and no batch runs any more.
func (s *server) child(role Role, sig Signal) {
	if sig == SIGHUP || sig == 0 {
		return
	}
	s.n.out.Exits = append(s.n.out.Exits, Exit{At: s.n.Now(), Role: role, PID: s.pids[role], Code: 128 + int(sig)})
	kept := s.roles[:0]
	for _, r := range s.roles {
		if r != role {
			kept = append(kept, r)
		}
	}
	s.roles = kept
	if role == Tracker {
		return
	}
	if rank, ok := role.rank(); ok && s.flags.VLLM {
		s.workerDied(rank)
		return
	}
	if rank, ok := role.rank(); ok && !s.listening() {
		s.warn(mainRank, "Rank %d scheduler is dead. Please check if there are relevant logs.", rank)
		s.warn(mainRank, "Exit code: %d", -int(sig))
		s.raw("Traceback (most recent call last):\n  File \"/usr/local/lib/python3.12/dist-packages/sglang/srt/entrypoints/engine.py\", line 1004, in _wait_for_scheduler_ready\n    raise e\nEOFError\n")
		s.die(1)
		return
	}
	if s.eng != nil {
		s.eng.hang()
	}
}

// term drains as the real server does: it waits for requests in flight without
// a limit, looking every 5 seconds, and a client that keeps sending keeps it
// alive.
func (s *server) term() {
	s.warn(mainRank, "SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
	s.phase = PhaseDraining
	var look func()
	look = func() {
		if s.phase != PhaseDraining {
			return
		}
		ids := s.waiting()
		if len(ids) == 0 {
			s.warn(mainRank, "Gracefully exiting... No more requests in queue.")
			s.die(137)
			return
		}
		s.warn(mainRank, "Gracefully exiting... Remaining number of requests %d. Remaining requests remaining_rids=['%s'].",
			len(ids), strings.Join(ids, "', '"))
		s.n.after(5*time.Second, look)
	}
	s.n.after(2*time.Second, look)
}

func (s *server) waiting() []string {
	var ids []string
	if s.eng == nil {
		return nil
	}
	for _, list := range [][]*request{s.eng.running, s.eng.batch, s.eng.queue} {
		for _, r := range list {
			if !r.gone {
				ids = append(ids, r.rid)
			}
		}
	}
	return ids
}

// outOfMemory is the crash of a prefill that does not fit beside the pool: each
// rank fails in the same layer, one a moment before the others.
func (s *server) outOfMemory(need int64) {
	if s.flags.VLLM {
		s.vllmOutOfMemory(need)
		return
	}
	const model = "/usr/local/lib/python3.12/dist-packages/sglang/srt"
	free, want := s.free(), need*3/8
	first := 3 % s.flags.TP
	frames := func(rank int) string {
		b := &strings.Builder{}
		fmt.Fprintf(b, "Scheduler hit an exception: Traceback (most recent call last):\n")
		for _, f := range []struct {
			file, function, code string
			line                 int
		}{
			{"managers/scheduler.py", "run_scheduler_process", "scheduler.event_loop_overlap()", 3026},
			{"managers/scheduler.py", "event_loop_overlap", "batch_result = self.run_batch(batch)", 1119},
			{"managers/scheduler.py", "run_batch", "batch_result = self.model_worker.forward_batch_generation(", 2184},
			{"managers/tp_worker.py", "forward_batch_generation", "out = self.model_runner.forward(", 446},
			{"model_executor/model_runner.py", "forward_extend", "return self.model.forward(", 2231},
			{"models/deepseek_v2.py", "forward", "hidden_states = self.mlp(hidden_states, forward_batch)", 2318},
			{"layers/moe/fused_moe_triton/fused_marlin_moe.py", "fused_marlin_moe", "intermediate_cache13 = torch.empty(", 158},
		} {
			fmt.Fprintf(b, "  File \"%s/%s\", line %d, in %s\n    %s\n", model, f.file, f.line, f.function, f.code)
		}
		fmt.Fprintf(b, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %.2f MiB. GPU %d has a total capacity of %.2f GiB of which %.2f MiB is free. Including non-PyTorch memory, this process has %.2f GiB memory in use. Of the allocated memory %.2f GiB is allocated by PyTorch, with 1.43 GiB allocated in private pools (e.g., CUDA Graphs), and 118.42 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)\n",
			float64(want)/mib, rank, float64(cardBytes)/gib, float64(min(free, want*3/4))/mib,
			float64(cardBytes-min(free, want*3/4))/gib, float64(cardBytes-contextBytes-free)/gib)
		return b.String()
	}
	s.eng.hung = true
	s.n.after(300*time.Millisecond, func() { s.warn(first, "%s", frames(first)) })
	s.n.after(340*time.Millisecond, func() {
		for rank := range s.flags.TP {
			if rank != first && s.alive() {
				s.warn(rank, "%s", frames(rank))
			}
		}
	})
	s.n.after(700*time.Millisecond, func() {
		if s.alive() {
			s.signal(ServerMain, SIGQUIT)
		}
	})
}

// hang stops the scheduler where it is. Its watchdog looks every half of its
// time and ends the server when a batch has stood still for longer than that.
func (e *engine) hang() {
	if e.hung {
		return
	}
	e.hung = true
	if e.flags.VLLM {
		e.stuck()
		return
	}
	limit := time.Duration(e.flags.Watchdog) * time.Second
	if len(e.running)+len(e.batch) == 0 || limit <= 0 {
		return
	}
	e.n.after(limit+limit/4, func() {
		if !e.s.alive() {
			return
		}
		for rank := range e.flags.TP {
			pid := e.s.pids[Scheduler(rank)]
			e.s.warn(rank, "Pyspy dump for PID %d:\nProcess %d: sglang::scheduler_TP%d\nThread %d (active): \"MainThread\"\n    synchronize (torch/cuda/streams.py:231)\n    event_loop_overlap (sglang/srt/managers/scheduler.py:1124)", pid, pid, rank, pid)
		}
		for rank := range e.flags.TP {
			e.s.warn(rank, "Scheduler watchdog timeout (self.watchdog_timeout=%d, self.soft=False)", e.flags.Watchdog)
		}
		e.n.after(5*time.Second, func() {
			if e.s.alive() {
				e.s.signal(ServerMain, SIGQUIT)
			}
		})
	})
}
