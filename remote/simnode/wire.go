package simnode

import (
	"encoding/json"
	"net"
	"sync"
)

// Kinds of messages on the node's socket, one JSON object a line. Below each
// stands who sends it and with which fields.
const (
	// A process says who it is: Role, PID, Parent, Argv, Env, Dir.
	kindHello = "hello"
	// The server got a signal: Number.
	kindSignal = "signal"
	// The server got an HTTP request: ID, Method, Target, Auth, Body.
	kindRequest = "request"
	// nvidia-smi wants its output: Argv. Answered by kindReply with Text and Code.
	kindSMI = "smi"

	// To any: the reply to a kindRequest (ID, Status, Type, Body; Status 0: hang up) or kindSMI.
	kindReply = "reply"
	// To server and client: write Text to descriptor Number.
	kindWrite = "write"
	// To server: accept connections on Port; 0 stops.
	kindListen = "listen"
	// To server: start a child that plays Role, with Argv.
	kindSpawn = "spawn"
	// To a child of the server: call yourself Text.
	kindTitle = "title"
	// To client: append Text to the file Dir.
	kindRow = "row"
	// To client: keep Number connections to Port.
	kindConns = "conns"
	// To any: end as a shell would report by Code.
	kindEnd = "end"
)

type message struct {
	Kind   string   `json:"kind"`
	Role   string   `json:"role,omitempty"`
	PID    int      `json:"pid,omitempty"`
	Parent int      `json:"parent,omitempty"`
	Argv   []string `json:"argv,omitempty"`
	Env    []string `json:"env,omitempty"`
	Dir    string   `json:"dir,omitempty"`
	ID     int      `json:"id,omitempty"`
	Number int      `json:"number,omitempty"`
	Port   int      `json:"port,omitempty"`
	Code   int      `json:"code,omitempty"`
	Status int      `json:"status,omitempty"`
	Method string   `json:"method,omitempty"`
	Target string   `json:"target,omitempty"`
	Auth   string   `json:"auth,omitempty"`
	Type   string   `json:"type,omitempty"`
	Text   string   `json:"text,omitempty"`
	Body   []byte   `json:"body,omitempty"`
}

// linkDepth is how many messages wait for a process that does not read, such
// as a stopped one; what comes beyond them is lost to it.
const linkDepth = 4096

// link is one end of a connection to the node's socket. Sending never blocks.
type link struct {
	conn net.Conn
	dec  *json.Decoder
	out  chan message

	closing sync.Once
	closed  chan struct{}
}

func newLink(conn net.Conn) *link {
	l := &link{conn: conn, dec: json.NewDecoder(conn), out: make(chan message, linkDepth), closed: make(chan struct{})}
	go l.write()
	return l
}

func (l *link) write() {
	enc := json.NewEncoder(l.conn)
	for {
		select {
		case m := <-l.out:
			if enc.Encode(m) != nil {
				l.close()
				return
			}
		case <-l.closed:
			return
		}
	}
}

func (l *link) send(m message) {
	select {
	case l.out <- m:
	default:
	}
}

// receive waits for the next message; an error is the end of the other side.
func (l *link) receive() (message, error) {
	var m message
	err := l.dec.Decode(&m)
	return m, err
}

func (l *link) close() {
	l.closing.Do(func() {
		close(l.closed)
		l.conn.Close()
	})
}
