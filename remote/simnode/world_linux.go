package simnode

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/runvigil/runvigil/remote/simnode/model"
)

// step is how often real time moves the model.
const step = 100 * time.Millisecond

// serverScale shortens the start of a server that is launched here to some ten
// seconds: a restart must end within 40, of which a server that drains may take
// 20 before it is killed.
const serverScale = 0.013

// clientScale shortens what a client that is started here takes before its first
// request.
const clientScale = 0.2

// world is the node's one clockwork: it moves the model with real time, hands
// what the model does to the processes that play it, and tells the model what
// has really become of them.
type world struct {
	places places
	spawn  *spawner
	// scale multiplies the start-up phases of servers launched here.
	scale float64
	host  *hostFiles

	mu   sync.Mutex
	node *model.Node
	// adopted are the processes that the scenario found running: the model
	// knows them already and their hello is no launch.
	adopted map[int]model.Role
	// awaited are those of them that have not said hello: the model stands
	// still until all have, so that nothing of what it does is lost.
	awaited map[int]bool
	servers []*player
	clients []*player
	// players are all processes that have said hello, by pid.
	players map[int]*player
	tickets map[int]pendingReply
}

// player is a connected process and what it was last told.
type player struct {
	link *link
	pid  int
	role model.Role
	// parent is the server that it is a child of, 0 none.
	parent int
	// title is the one it was told to take.
	title string
	// Of a server: the children it was told to have, and the port it was told
	// to listen on.
	children map[model.Role]bool
	port     int
	// conns are the connections that a client was told to keep.
	conns connections
	// ended says that the model itself has ended it, gone that it is no more.
	ended, gone bool
}

type pendingReply struct {
	to *link
	id int
}

type connections struct {
	port, number int
}

func newWorld(node *model.Node, p places, s *spawner) *world {
	return &world{
		places: p, spawn: s, node: node,
		adopted: make(map[int]model.Role),
		awaited: make(map[int]bool),
		players: make(map[int]*player),
		tickets: make(map[int]pendingReply),
	}
}

// tick moves the model until the process ends.
func (w *world) tick() {
	for range time.Tick(step) {
		w.mu.Lock()
		w.advance()
		w.host.renew(w.node.Host(), time.Now())
		w.mu.Unlock()
	}
}

// accept serves the node's socket.
func (w *world) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go w.attend(newLink(conn))
	}
}

// attend listens to one process until its end, which is the end of its link.
func (w *world) attend(l *link) {
	defer l.close()
	var p *player
	for {
		m, err := l.receive()
		if err != nil {
			break
		}
		w.mu.Lock()
		switch m.Kind {
		case kindHello:
			p = w.welcome(l, m)
		case kindSignal:
			if p != nil {
				w.node.Signal(p.pid, model.Signal(m.Number))
			}
		case kindRequest:
			w.request(l, m)
		case kindSMI:
			text, code := w.node.NvidiaSMI(m.Argv)
			l.send(message{Kind: kindReply, Text: text, Code: code})
		}
		w.advance()
		w.mu.Unlock()
	}
	if p != nil {
		w.mu.Lock()
		w.farewell(p)
		w.advance()
		w.mu.Unlock()
	}
}

// welcome takes in a process: one of the scenario's, or a new launch.
func (w *world) welcome(l *link, m message) *player {
	p := &player{link: l, pid: m.PID, role: model.Role(m.Role), children: make(map[model.Role]bool)}
	adopted, known := w.adopted[m.PID]
	if known {
		p.role = adopted
		delete(w.awaited, m.PID)
	}
	switch m.Role {
	case "server":
		if !known {
			w.bury()
			w.node.Launch(model.Launch{Argv: w.places.modelArgv(m.Argv), Env: m.Env,
				Dir: w.places.modelPath(m.Dir), PID: m.PID, Scale: w.scale})
		}
		w.servers = append(w.servers, p)
	case "client":
		if !known {
			w.node.StartClient(model.ClientLaunch{Argv: w.places.modelArgv(m.Argv), Env: m.Env,
				Dir: w.places.modelPath(m.Dir), PID: m.PID, Scale: clientScale})
		}
		if p.role != model.OldClient {
			w.clients = append(w.clients, p)
		}
	}
	if !known && m.Role != "server" && m.Role != "client" {
		p.parent = m.Parent
	}
	if known || p.parent != 0 && p.parent == w.node.Server().PID {
		w.node.Bind(p.role, m.PID)
	}
	w.players[m.PID] = p
	return p
}

// farewell tells the model that a process has ended by other hands than its.
func (w *world) farewell(p *player) {
	if p.gone {
		return
	}
	p.gone = true
	delete(w.players, p.pid)
	w.servers = without(w.servers, p)
	w.clients = without(w.clients, p)
	if !p.ended {
		w.node.Signal(p.pid, model.SIGKILL)
	}
}

// bury takes leave of servers that have ended but whose links have not been
// read to their ends yet: a launch must not find their memory taken.
func (w *world) bury() {
	for _, p := range slices.Clone(w.servers) {
		if !alive(p.pid) {
			w.farewell(p)
		}
	}
}

func without(list []*player, gone *player) []*player {
	kept := list[:0]
	for _, p := range list {
		if p != gone {
			kept = append(kept, p)
		}
	}
	return kept
}

// newest is the process that the model's output belongs to.
func newest(list []*player) *player {
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1]
}

func (w *world) request(l *link, m message) {
	reply, ok := w.node.HTTP(m.Method, m.Target, m.Auth, m.Body)
	switch {
	case !ok:
		l.send(message{Kind: kindReply, ID: m.ID})
	case reply.Ticket != 0:
		w.tickets[reply.Ticket] = pendingReply{to: l, id: m.ID}
	default:
		w.answer(pendingReply{to: l, id: m.ID}, reply)
	}
}

func (w *world) answer(to pendingReply, r model.Reply) {
	to.to.send(message{Kind: kindReply, ID: to.id, Status: r.Status, Type: r.Type, Body: []byte(w.places.text(string(r.Body)))})
}

// advance moves the model to the present and carries out what it did.
func (w *world) advance() {
	if len(w.awaited) > 0 {
		return
	}
	out := w.node.Advance(time.Now().Round(0))
	for _, c := range out.Server {
		if p := w.players[c.PID]; p != nil {
			w.write(p, c)
		}
	}
	if p := newest(w.clients); p != nil {
		for _, c := range out.Client {
			w.write(p, c)
		}
		for _, row := range out.Rows {
			p.link.send(message{Kind: kindRow, Dir: w.places.file(row.File), Text: string(row.JSON()) + "\n"})
		}
	}
	w.kernel(out.Kernel)
	for _, a := range out.Answers {
		if to, waiting := w.tickets[a.Ticket]; waiting {
			delete(w.tickets, a.Ticket)
			w.answer(to, a.Reply)
		}
	}
	for _, exit := range out.Exits {
		w.end(exit)
	}
	w.arrange()
}

func (w *world) write(p *player, c model.Chunk) {
	p.link.send(message{Kind: kindWrite, Number: int(c.Stream), Text: w.places.text(c.Text)})
}

func (w *world) kernel(chunks []model.Chunk) {
	if len(chunks) == 0 {
		return
	}
	if err := appendLine(w.places.kernel(), kernelText(chunks)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// end ends a process as the model says, after what it has still to write.
func (w *world) end(exit model.Exit) {
	p := w.players[exit.PID]
	if p == nil {
		return
	}
	p.ended = true
	p.link.send(message{Kind: kindEnd, Code: exit.Code})
	time.AfterFunc(2*time.Second, func() {
		w.mu.Lock()
		stillThere := w.players[exit.PID] == p
		w.mu.Unlock()
		if stillThere {
			_ = syscall.Kill(exit.PID, syscall.SIGKILL)
		}
	})
}

// reachable says whether a port is one of the node's own listeners.
func (w *world) reachable(port int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.servers {
		if p.port != 0 && p.port == port {
			return true
		}
	}
	return false
}

// launchFound starts the processes that the scenario found running and writes
// the logs of the past, in which they are named.
func (w *world) launchFound(processes []model.Process, past model.Past) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	pids := make(map[int]int)
	for _, p := range processes {
		if p.Parent != "" {
			continue
		}
		child, err := w.launchOne(p, w.places.logOf(p.Role, past))
		if err != nil {
			return fmt.Errorf("start the node's %s: %w", p.Role, err)
		}
		w.adopted[child.pid] = p.Role
		w.awaited[child.pid] = true
		pids[p.PID] = child.pid
	}
	started := w.node.Client().Started
	return errors.Join(writeLogs(w.places, past, pids, started), writeVisit(w.places, past, started))
}

func (w *world) launchOne(p model.Process, log string) (*process, error) {
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	argv, environ := w.places.argv(p.Argv), w.places.environOf(p.Env)
	if titled(p) {
		argv, environ = workerArgv, append(environ, roleEnv+"="+string(p.Role))
	}
	return w.spawn.start(filepath.Join(w.places.bin(), "python3"), argv, &syscall.ProcAttr{
		Dir:   w.places.file(p.Dir),
		Env:   environ,
		Files: []uintptr{null.Fd(), out.Fd(), out.Fd()},
	})
}

// pidOf is the real pid of a role, 0 when nobody plays it.
func (w *world) pidOf(role model.Role) int {
	for pid, p := range w.players {
		if p.role == role {
			return pid
		}
	}
	return 0
}
