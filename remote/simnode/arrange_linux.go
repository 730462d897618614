package simnode

import (
	"strings"

	"github.com/runvigil/runvigil/remote/simnode/model"
)

// arrange makes children, titles, ports and connections what the model says.
func (w *world) arrange() {
	processes, port := w.node.Processes(), 0
	for _, state := range w.node.Servers() {
		server := w.players[state.PID]
		if server == nil || server.ended {
			continue
		}
		w.arrangePort(server, state)
		if port == 0 {
			port = server.port
		}
		for _, child := range processes {
			if child.ParentPID == server.pid && !server.children[child.Role] {
				server.children[child.Role] = true
				server.link.send(message{Kind: kindSpawn, Role: string(child.Role), Argv: childArgv(child.Role)})
			}
		}
	}
	w.arrangeTitles(processes)
	w.arrangeConnections(port)
}

func (w *world) arrangePort(server *player, state model.ServerState) {
	port := 0
	if state.Listening {
		port = state.Port
		if port == modelPort {
			port = w.places.port
		}
	}
	if server.port != port {
		server.port = port
		server.link.send(message{Kind: kindListen, Port: port})
	}
}

func (w *world) arrangeTitles(processes []model.Process) {
	type child struct {
		parent int
		role   model.Role
	}
	titles := make(map[child]string, len(processes))
	for _, process := range processes {
		if titled(process) {
			titles[child{process.ParentPID, process.Role}] = process.Title
		}
	}
	for _, p := range w.players {
		if title := titles[child{p.parent, p.role}]; title != "" && title != p.title {
			p.title = title
			p.link.send(message{Kind: kindTitle, Text: title})
		}
	}
}

// arrangeConnections lets each client hold as many connections to the server's
// port as the model's has requests in flight.
func (w *world) arrangeConnections(port int) {
	for _, state := range w.node.Clients() {
		client := w.players[state.PID]
		if client == nil {
			continue
		}
		want := connections{port: port}
		if port != 0 {
			want.number = state.InFlight
		}
		if want != client.conns {
			client.conns = want
			client.link.send(message{Kind: kindConns, Port: want.port, Number: want.number})
		}
	}
}

// titled says whether a process has given itself a name of its own.
func titled(p model.Process) bool {
	return strings.HasPrefix(p.Title, "sglang::") || strings.HasPrefix(p.Title, "VLLM::")
}

// childArgv is the command line of a child of the server before its title.
func childArgv(role model.Role) []string {
	if role == model.Tracker {
		return []string{"python3", "-c", "from multiprocessing.resource_tracker import main;main(10)"}
	}
	return workerArgv
}
