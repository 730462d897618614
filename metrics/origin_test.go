package metrics

import "testing"

func TestOrigin(t *testing.T) {
	s := &Snapshot{Procs: []Proc{
		{PID: 10, PPID: 1, Argv: []string{"sshd:", "op@pts/0"}},
		{PID: 11, PPID: 10, Comm: "bash", Env: map[string]string{"SSH_CONNECTION": "10.0.0.8 51000 10.0.0.7 22"}},
		{PID: 12, PPID: 11, Comm: "python3"},
		{PID: 20, PPID: 1, Comm: "python3", Env: map[string]string{"SSH_CONNECTION": "10.0.0.9 51001 10.0.0.7 22"}},
		{PID: 30, PPID: 1, Comm: "tmux: server", User: "op"},
		{PID: 31, PPID: 30, Comm: "python3"},
		{PID: 40, PPID: 1, Comm: "python3"},
	}}
	for pid, want := range map[int]string{
		12: "login op@pts/0 from 10.0.0.8",
		20: "login from 10.0.0.9",
		31: "tmux: server of op",
		40: "",
		99: "",
	} {
		if got := s.Origin(pid); got != want {
			t.Errorf("origin of %d is %q, want %q", pid, got, want)
		}
	}
}
