package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/metrics"
)

// chosen is the server that the screen shows where a node has several; the zero
// value is the first one. The port finds it again after a restart.
type chosen struct {
	id   string
	port int
}

// front gives the snapshot with the chosen server first: every pane, view and
// acting key means the first server.
func (m *Model) front(s *metrics.Snapshot) *metrics.Snapshot {
	if s == nil || m.chosen.id == "" || len(s.Servers) < 2 {
		return s
	}
	i := slices.IndexFunc(s.Servers, func(v metrics.Server) bool { return v.ID == m.chosen.id })
	if i < 0 {
		i = slices.IndexFunc(s.Servers, func(v metrics.Server) bool { return v.Port == m.chosen.port && v.Port != 0 })
	}
	if i <= 0 {
		return s
	}
	out := *s
	out.Servers = append([]metrics.Server{s.Servers[i]}, slices.Delete(slices.Clone(s.Servers), i, i+1)...)
	out.Verdict = metrics.Judge(&out)
	return &out
}

// choose shows a server from now on.
func (m *Model) choose(v *metrics.Server) {
	m.chosen = chosen{v.ID, v.Port}
	m.live, m.snap = m.front(m.live), m.front(m.snap)
	m.show()
}

// byPort are the servers in an order that does not depend on which is shown.
func byPort(s *metrics.Snapshot) []metrics.Server {
	if s == nil {
		return nil
	}
	return slices.SortedFunc(slices.Values(s.Servers), func(a, b metrics.Server) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.ID, b.ID))
	})
}

// place is which of how many servers is shown.
func place(s *metrics.Snapshot) (i, n int) {
	all := byPort(s)
	return 1 + slices.IndexFunc(all, func(v metrics.Server) bool { return v.ID == s.Servers[0].ID }), len(all)
}

// nextServer shows the server after the one that is shown.
func (m *Model) nextServer() {
	if all := byPort(m.snap); len(all) > 1 {
		i, n := place(m.snap)
		m.choose(&all[i%n])
	}
}

func serverKeys() []binding {
	return []binding{{
		name: "server", keys: []string{"n"}, views: []string{viewOverview, viewGen, viewReq, viewGPUs, viewRows, viewProcs}, group: "Look",
		short: "next server", help: "show the next server of this node, or the one with a port or pid", arg: "PORT|PID",
		when: func(m *Model) bool { return m.snap != nil && len(m.snap.Servers) > 1 },
		args: func(m *Model) []string {
			var out []string
			for _, v := range byPort(m.snap) {
				out = append(out, strconv.Itoa(cmp.Or(v.Port, v.PID)))
			}
			return out
		},
		do: func(m *Model, arg string) tea.Cmd {
			if arg == "" {
				m.nextServer()
				return nil
			}
			all := byPort(m.snap)
			i := slices.IndexFunc(all, func(v metrics.Server) bool { return arg == strconv.Itoa(v.Port) || arg == strconv.Itoa(v.PID) })
			if i < 0 {
				return m.say(fmt.Sprintf("server: no server has the port or pid %s", arg))
			}
			m.choose(&all[i])
			return nil
		},
	}}
}
