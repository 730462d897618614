// Package frames drives the simulated node's model in virtual time: it gives
// the frames that remote/probe would emit on such a node, without a node, a
// connection or a clock. Tests and the recordings in testdata come from it.
//
// Two Sources of the same scenario and start, given the same wants, give the
// same frames byte for byte.
package frames

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/simnode/model"
)

// How often the probe looks at what nobody asks for by a want, and at what a
// want gives no interval for.
const (
	appsEvery   = 10 * time.Second
	scanEvery   = 20 * time.Second
	scanFirst   = 10 * time.Second // while no server is known
	dirEvery    = 15 * time.Second
	diskEvery   = 30 * time.Second
	kernelEvery = 30 * time.Second
	httpEvery   = 5 * time.Second
	// nodeUser is who is logged in.
	nodeUser = "root"
	// clockTicks is the unit of process times, a second.
	clockTicks = 100
)

// Source is one visit to a node in virtual time.
type Source struct {
	node  *model.Node
	past  model.Past
	name  string
	job   int
	at    time.Time // receive time of the next frame
	begun bool

	files   map[string]*file
	paths   []string // of files, in the order in which they came
	follows map[string]*follow
	counts  map[string]*count
	due     map[string]time.Time
	asked   map[int]*question   // HTTP requests without an answer yet, by ticket
	busy    map[string]bool     // endpoints that are being asked
	saved   []metrics.SavedFile // as the operator's last visit had counted
	kernel  []string            // lines of the kernel log that were not told
	alive   string              // wanted processes at the last look
	busyCPU float64             // seconds of all processors since the boot
	out     []metrics.Frame
}

// New begins a visit to the node of a scenario whose present is start. The zone
// of start is the node's.
func New(sc model.Scenario, start time.Time) *Source {
	s := &Source{
		node: model.New(sc, start), name: "demo", job: sc.Job, at: start,
		files: map[string]*file{}, follows: map[string]*follow{}, counts: map[string]*count{},
		due: map[string]time.Time{}, asked: map[int]*question{}, busy: map[string]bool{},
	}
	s.past = s.node.Past()
	h := s.node.Host()
	s.busyCPU = start.Sub(h.BootAt).Seconds() * 0.09 * float64(h.CPUs)
	s.layOut()
	s.absorb(s.past.Output)
	return s
}

// Node is the node itself, for launches, signals and other inputs.
func (s *Source) Node() *model.Node { return s.node }

// Next lets one second pass (the first call: none) and gives what the probe
// would have emitted in it, in order. wants is what the board asks for now.
func (s *Source) Next(wants []metrics.Want) []metrics.Frame {
	s.out = nil
	if s.begun {
		to := s.node.Now().Add(time.Second)
		s.absorb(s.node.Advance(to))
		s.at = to
	}
	s.emit(metrics.KindTick, "", time.Time{}, nil)
	if !s.begun {
		s.begun = true
		s.session()
	}
	s.system(wants)
	s.lookAlive(wants)
	s.graphics()
	s.scan()
	s.lookFiles(wants)
	s.places(wants)
	s.ask(wants)
	return s.out
}

func (s *Source) emit(kind metrics.Kind, name string, node time.Time, data []byte) {
	s.out = append(s.out, metrics.Frame{Kind: kind, Name: name, At: s.at, Node: node, Data: data})
	s.at = s.at.Add(3 * time.Millisecond) // frames of one second come one after the other
}

func (s *Source) emitJSON(kind metrics.Kind, name string, node time.Time, v any) {
	s.emit(kind, name, node, metrics.JSONFrame(kind, name, s.at, v).Data)
}

// every tells whether something is due, and notes it. The first time it is.
func (s *Source) every(what string, interval time.Duration) bool {
	now := s.node.Now()
	if now.Before(s.due[what]) {
		return false
	}
	s.due[what] = now.Add(interval)
	return true
}

func (s *Source) uptime() float64 {
	return s.node.Now().Sub(s.node.Host().BootAt).Seconds()
}

func (s *Source) session() {
	h, now := s.node.Host(), s.node.Now()
	zone, offset := now.Zone()
	tools := map[string]string{}
	for _, name := range []string{"nvidia-smi", "curl", "python3", "tmux", "dmesg", "journalctl", "stat", "dd", "wc", "grep", "sed", "find"} {
		tools[name] = "/usr/bin/" + name
	}
	s.emitJSON(metrics.KindSession, "", now.UTC().Truncate(time.Second), metrics.Session{
		Node: s.name, User: nodeUser, Host: h.Hostname, Dialer: "native", BootID: h.BootID, Kernel: "6.8.12-15-pve", Shell: "dash",
		Zone: zone, ZoneSec: offset, HZ: clockTicks, CPUs: h.CPUs, Now: now.UTC().Truncate(time.Second), UptimeS: s.uptime(), Tools: tools,
	})
	s.emitJSON(metrics.KindLink, "", time.Time{}, metrics.LinkFact{Status: metrics.LinkUp, RTTms: 11.4})
}

// system is one sample of the host, as the lines of /proc, with an answer to who
// asks for memory limits now and then: this node has none.
func (s *Source) system(wants []metrics.Want) {
	h := s.node.Host()
	up := s.uptime()
	busy := h.CPUUtil * float64(h.CPUs)
	s.busyCPU += busy
	total := up * float64(h.CPUs)
	b := &strings.Builder{}
	fmt.Fprintf(b, "uptime %.2f %.2f\n", up, total-s.busyCPU)
	fmt.Fprintf(b, "loadavg %.2f %.2f %.2f %d/%d %d\n", h.Load[0], h.Load[1], h.Load[2], int(busy)+1, 1800, 210_000)
	user := int64(s.busyCPU * 85)
	fmt.Fprintf(b, "cpu  %d 0 %d %d 0 0 0 0 0 0\n", user, int64(s.busyCPU*clockTicks)-user, int64((total-s.busyCPU)*clockTicks))
	for _, m := range []struct {
		name  string
		bytes int64
	}{
		{"MemTotal", h.MemTotal}, {"MemFree", h.MemFree}, {"MemAvailable", h.MemAvailable}, {"Buffers", h.Buffers}, {"Cached", h.Cached},
		{"SwapTotal", h.SwapTotal}, {"SwapFree", h.SwapFree}, {"Shmem", h.Shmem},
	} {
		fmt.Fprintf(b, "%-15s %8d kB\n", m.name+":", m.bytes/1024)
	}
	groups := ""
	for _, w := range wants {
		if w.Kind == metrics.WantMemory && s.every("memory "+strconv.Itoa(w.PID), w.Every) {
			groups += " " + strconv.Itoa(w.PID)
		}
	}
	if groups != "" {
		b.WriteString("groups" + groups + "\n")
	}
	s.emit(metrics.KindSys, "", s.node.Now().Round(time.Millisecond), []byte(b.String()))
}

// What the probe asks of nvidia-smi.
const (
	streamFields = "index,memory.used,memory.free,utilization.gpu,utilization.memory,temperature.gpu,temperature.memory,power.draw,clocks.current.sm,clocks_event_reasons.active,ecc.errors.uncorrected.volatile.total,gpu_recovery_action,pstate"
	staticFields = "index,uuid,name,pci.bus_id,driver_version,memory.total,memory.reserved,power.limit,power.default_limit,clocks.max.sm,mig.mode.current,ecc.mode.current,persistence_mode,compute_mode"
	appFields    = "pid,process_name,used_memory,gpu_uuid"
)

func (s *Source) graphics() {
	query := func(kind metrics.Kind, switches, fields, format string) {
		text, _ := s.node.NvidiaSMI([]string{switches + fields, "--format=" + format})
		s.emit(kind, "", time.Time{}, []byte(fields+"\n"+text))
	}
	query(metrics.KindGPU, "--query-gpu=", streamFields, "csv,noheader,nounits")
	if s.every("gpu apps", appsEvery) {
		if s.every("gpu static", 100*365*24*time.Hour) {
			query(metrics.KindGPUStatic, "--query-gpu=", staticFields, "csv,noheader,nounits")
		}
		query(metrics.KindGPUApps, "--query-compute-apps=", appFields, "csv,noheader")
	}
}

// Reconnect begins a new connection to the same node: the next frames bring the
// session and tell all history again, as a new probe does.
func (s *Source) Reconnect() {
	s.begun = false
	s.follows, s.counts = map[string]*follow{}, map[string]*count{}
	s.due = map[string]time.Time{}
}
