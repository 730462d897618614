package probe

import (
	"encoding/hex"
	"net/netip"
	"strings"
)

// socket is one TCP socket of the node's network namespace.
type socket struct {
	listen       bool
	local, peer  netip.Addr
	lport, pport int
}

// sockets are the TCP sockets by inode, and the addresses of this host.
type sockets struct {
	byInode map[string]socket
	here    map[netip.Addr]bool
}

// parseSockets reads discovery's lines "state local peer inode" with addresses
// as in /proc/net/tcp and tcp6.
func parseSockets(text string) sockets {
	s := sockets{byInode: map[string]socket{}, here: map[netip.Addr]bool{}}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 4 {
			continue
		}
		local, lport, ok1 := hexAddr(f[1])
		peer, pport, ok2 := hexAddr(f[2])
		if !ok1 || !ok2 {
			continue
		}
		sock := socket{listen: f[0] == "0A", local: local, peer: peer, lport: lport, pport: pport}
		if f[3] != "0" {
			s.byInode[f[3]] = sock
		}
		if !local.IsUnspecified() {
			s.here[local] = true
		}
	}
	return s
}

// isHere tells whether an address is one of this host.
func (s sockets) isHere(a netip.Addr) bool { return a.IsLoopback() || s.here[a] }

// hexAddr reads an address of /proc/net/tcp: 32-bit words, each in the byte
// order of a little-endian machine, a colon, the port.
func hexAddr(s string) (netip.Addr, int, bool) {
	host, port, ok := strings.Cut(s, ":")
	if !ok || len(port) != 4 {
		return netip.Addr{}, 0, false
	}
	raw, err := hex.DecodeString(host)
	p, err2 := hex.DecodeString(port)
	if err != nil || err2 != nil || len(raw) != 4 && len(raw) != 16 {
		return netip.Addr{}, 0, false
	}
	for i := 0; i < len(raw); i += 4 {
		raw[i], raw[i+1], raw[i+2], raw[i+3] = raw[i+3], raw[i+2], raw[i+1], raw[i]
	}
	a, _ := netip.AddrFromSlice(raw)
	return a.Unmap(), int(p[0])<<8 | int(p[1]), true
}

// openFD is what one process holds open of what matters here.
type openFD struct {
	sockets []string // inodes
	pipe    string   // inode of the pipe on descriptor 0
	gpus    []int
	writes  []string
	reads   []string
}

// parseFDs reads the answer of fd.
func parseFDs(text string) map[int]*openFD {
	out := map[int]*openFD{}
	var cur *openFD
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			continue
		}
		rest := line[1:]
		if line[0] == '@' {
			cur = &openFD{}
			out[int(number(rest))] = cur
			continue
		}
		if cur == nil {
			continue
		}
		switch line[0] {
		case 's':
			cur.sockets = append(cur.sockets, rest)
		case 'p':
			cur.pipe = rest
		case 'g':
			cur.gpus = append(cur.gpus, int(number(rest)))
		case 'w':
			cur.writes = append(cur.writes, rest)
		case 'r':
			cur.reads = append(cur.reads, rest)
		}
	}
	return out
}

// links are the owner and the symbolic links of one process.
type links struct {
	uid                int
	cwd, exe, fd1, fd2 string
}

// parseLinks reads "ls -ldn" of /proc/PID and of links below it.
func parseLinks(text string) map[int]*links {
	out := map[int]*links{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		at := strings.Index(line, " /proc/")
		if at < 0 {
			continue
		}
		name, target, isLink := strings.Cut(line[at+len(" /proc/"):], " -> ")
		id, which, _ := strings.Cut(name, "/")
		pid := int(number(id))
		if pid <= 0 {
			continue
		}
		l := out[pid]
		if l == nil {
			l = &links{uid: -1}
			out[pid] = l
		}
		if which == "" {
			if f := strings.Fields(line); len(f) > 3 {
				l.uid = int(number(f[2]))
			}
			continue
		}
		if !isLink {
			continue
		}

		switch which {
		case "cwd":
			l.cwd = target
		case "exe":
			l.exe = target
		case "fd/1":
			l.fd1 = target
		case "fd/2":
			l.fd2 = target
		}
	}
	return out
}
