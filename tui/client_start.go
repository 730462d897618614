package tui

import (
	"context"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/launch/restart"
	"github.com/runvigil/runvigil/metrics"
)

// clientPlan is how the client would be started, and what stands against it: the
// configured command where it is marked resumable, else what was read back while
// it lived.
func clientPlan(s *metrics.Snapshot) (c ClientStart, against []restart.Refusal) {
	refuse := func(reason, way string) {
		against = append(against, restart.Refusal{Code: restart.RefusedClient, Reason: reason, Way: way})
	}
	var last *metrics.Client
	for i := range s.Clients {
		k := &s.Clients[i]
		if k.PID > 0 && k.State != "gone" && k.State != "zombie" {
			refuse(fmt.Sprintf("client %d runs already: a second one would send the same requests again", k.PID), "end it first: X in the process view")
		}
		if k.PID > 0 && len(k.Argv) > 0 && (last == nil || k.Started.After(last.Started)) {
			last = k
		}
	}
	if last != nil {
		c.Dir, c.Log = last.Cwd, last.Log.Path
	}
	if s.Config.ClientCommand != "" {
		c.Command = s.Config.ClientCommand
		if !s.Config.ClientResumable {
			refuse("the configured client command is not marked resumable: started again it might begin anew", "set client_resumable = true if that loses nothing")
		}
		return c, against
	}
	const way = "set client_command and client_resumable in the configuration"
	switch {
	case last == nil:
		refuse("no client's command is known", way)
		return c, against
	case last.Cwd == "":
		refuse("the client's directory could not be read", way)
	case restart.Truncates(last.Argv) != "":
		refuse("the client's command has "+restart.Truncates(last.Argv)+", which would begin its dataset anew", "start it by hand, or "+way)
	case slices.ContainsFunc(last.Argv, func(a string) bool { return strings.Contains(a, metrics.Masked) }):
		refuse("the client's command holds a secret, which is not known here", way)
	}
	c.Argv = slices.Clone(last.Argv)
	return c, against
}

// startClient opens the review of starting the client.
func (m *Model) startClient() tea.Cmd {
	c, against := clientPlan(m.live)
	v := m.views[viewReview].(*reviewView)
	*v = reviewView{client: &c, against: against}
	return m.open(viewReview)
}

func (m *Model) beginClient() tea.Cmd {
	v := m.views[viewReview].(*reviewView)
	act := m.actor()
	if act == nil || v.client == nil || !canAct(m) {
		return m.say("nothing was done: acting is not possible now")
	}
	c := *v.client
	m.stack = slices.DeleteFunc(m.stack, func(n string) bool { return n == viewReview })
	return m.call(func(ctx context.Context) tea.Msg {
		return sayMsg("the client was started; p shows it", act.StartClient(ctx, c))
	})
}
