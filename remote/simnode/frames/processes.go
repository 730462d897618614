package frames

import (
	"fmt"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/simnode/model"
)

func (s *Source) ticks(t time.Time) int64 {
	return int64(t.Sub(s.node.Host().BootAt).Seconds() * clockTicks)
}

// scan is one discovery: at first, then every so often, and when a wanted
// process has ended.
func (s *Source) scan() {
	interval := scanEvery
	if phase := s.node.Server().Phase; phase == model.PhaseNone || phase == model.PhaseDead {
		interval = scanFirst
	}
	if !s.every("scan", interval) {
		return
	}
	out := metrics.Scan{UptimeS: s.uptime(), Procs: []metrics.Proc{s.initProcess()}}
	parents := map[model.Role]int{}
	for _, p := range s.node.Processes() {
		parents[p.Role] = p.PID
		out.Procs = append(out.Procs, s.proc(p, parents))
	}
	out.Total = len(out.Procs) + 31
	s.emitJSON(metrics.KindScan, "", s.node.Now().Round(time.Millisecond), out)
}

// initProcess is the ancestor of all.
func (s *Source) initProcess() metrics.Proc {
	return metrics.Proc{
		PID: 1, PGID: 1, SID: 1, Start: 37, State: "S", User: nodeUser, Comm: "systemd", Argv: []string{"/sbin/init"},
		Exe: "/usr/lib/systemd/systemd", Cwd: "/", FD1: "/dev/null", FD2: "/dev/null", Threads: 1, CPU: 48_213, RSS: 13 << 20,
		Env: nil, EnvRead: true, Cgroup: "init.scope",
	}
}

func (s *Source) proc(p model.Process, parents map[model.Role]int) metrics.Proc {
	q := metrics.Proc{
		PID: p.PID, PPID: 1, PGID: p.PID, SID: p.PID, Start: s.ticks(p.Started), State: string(rune(p.State)), User: nodeUser,
		Comm: comm(p), Exe: "/usr/bin/python3.12", Cwd: p.Dir, Threads: p.Threads, CPU: int64(p.CPU * clockTicks), RSS: p.RSS,
		Cgroup: "session-4.scope", Argv: metrics.MaskArgv(p.Argv),
	}
	if p.Parent != "" {
		q.PPID, q.PGID, q.SID = parents[p.Parent], parents[p.Parent], parents[p.Parent]
	}
	q.Env, q.EnvRead = environment(p.Env)
	srv, cli := s.node.Server(), s.node.Client()
	switch p.Role {
	case model.ClientMain, model.OldClient:
		q.FD1, q.FD2 = s.past.ClientLog, s.past.ClientLog
		if srv.Listening && p.Role == model.ClientMain && cli.InFlight > 0 {
			q.Conns = []metrics.Conn{{Port: srv.Port, Count: cli.InFlight}}
		}
	default:
		q.FD1, q.FD2 = s.past.ServerLog, s.past.ServerLog
		if p.Role == model.ServerMain && srv.Listening {
			q.Listen = []metrics.ListenAddr{{Addr: srv.Host, Port: srv.Port}}
		}
		if p.GPU >= 0 && p.GPUMem > 0 {
			q.GPUs = []int{p.GPU}
		}
	}
	return q
}

// comm is the name that the kernel keeps, 15 bytes of it.
func comm(p model.Process) string {
	name := "python3"
	if strings.HasPrefix(p.Title, "sglang::") || strings.HasPrefix(p.Title, "VLLM::") {
		name = p.Title
	}
	return name[:min(len(name), 15)]
}

// environment gives the variables that the probe chooses.
func environment(env []string) (map[string]string, bool) {
	chosen := map[string]string{}
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		for _, prefix := range []string{"PYTHONUNBUFFERED", "CUDA_", "NCCL_", "SGLANG_", "SGL_", "VLLM_", "TZ", "PYTORCH_CUDA_ALLOC_CONF", "TIMEOUT", "REQUEST_TIMEOUT", "HTTP_TIMEOUT", "OPENAI_TIMEOUT"} {
			if strings.HasPrefix(name, prefix) {
				_, value, _ := strings.Cut(metrics.MaskEnv([]string{e})[0], "=")
				chosen[name] = value
			}
		}
	}
	if len(chosen) == 0 {
		return nil, true
	}
	return chosen, true
}

// lookAlive tells the state of the wanted processes, and looks for others when
// one has ended.
func (s *Source) lookAlive(wants []metrics.Want) {
	var list []metrics.Alive
	state := &strings.Builder{}
	var processes []model.Process
	for _, w := range wants {
		if w.Kind != metrics.WantPID {
			continue
		}
		if processes == nil {
			processes = s.node.Processes()
		}
		a := metrics.Alive{PID: w.PID}
		if w.PID == 1 {
			a = metrics.Alive{PID: 1, Start: 37, State: "S", Threads: 1, CPU: 48_213}
		}
		for _, p := range processes {
			if p.PID == w.PID {
				a.Start, a.State, a.Threads, a.CPU = s.ticks(p.Started), string(rune(p.State)), p.Threads, int64(p.CPU*clockTicks)
				if w.Reads {
					a.Read = &p.Read
				}
			}
		}
		list = append(list, a)
		fmt.Fprintf(state, "%d:%v ", w.PID, a.State != "")
	}
	if len(list) == 0 {
		return
	}
	s.emitJSON(metrics.KindAlive, "", time.Time{}, list)
	if s.alive != "" && s.alive != state.String() {
		delete(s.due, "scan")
	}
	s.alive = state.String()
}
