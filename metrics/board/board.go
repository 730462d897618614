package board

import (
	"slices"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/findings"
	"github.com/runvigil/runvigil/metrics/kernel"
)

const (
	eventsKeep = 500
)

// Board holds the state of one node. It is not safe for concurrent use.
type Board struct {
	now     time.Time
	begun   time.Time // first frame
	session metrics.Session
	known   bool          // a session was seen
	offset  time.Duration // node clock minus local clock
	boot    time.Time     // on the local clock

	link      metrics.Link
	wasUp     bool
	relinked  time.Time // when the link came back after it was down
	lastHeard time.Time // newest data before that
	channels  map[string]metrics.Channel
	cfg       metrics.Config
	given     []metrics.ConfigTarget // of the first configuration; others were set by hand
	told      bool                   // a first configuration came
	guards    map[string][]metrics.Guard
	saved     map[string]metrics.SavedFile
	imported  []metrics.Start
	notes     []metrics.Note

	sys       hostState
	gpus      gpuState
	procs     map[int]metrics.Proc
	scanned   time.Time
	procList  []metrics.Proc // of the newest scan, for snapshots
	hidden    []string
	remote    []metrics.RemoteConn
	logs      map[string]*logState
	servers   []*serverState
	clients   []*clientState
	files     map[string]metrics.FileStat
	dirs      map[string][]metrics.FileStat
	rows      map[string]*rowState
	data      map[string]*dataState
	sets      map[string]*setState
	job       setState
	kernel    []kernelFact
	kernelLog kernel.Parser

	events   []metrics.Event
	restarts map[string]string      // restarts that were followed here, by id: whose login began them, "" unknown
	launched map[launched]time.Time // processes that they started, and when that was told
	engine   *findings.Engine
	active   []metrics.Finding // at the newest tick
	history  []metrics.Finding
	cannot   []metrics.CannotTell
	snap     *metrics.Snapshot
	bad      map[metrics.Kind]string // newest frame of a kind that could not be read
}

// New gives an empty board.
func New() *Board {
	return &Board{
		channels: map[string]metrics.Channel{},
		guards:   map[string][]metrics.Guard{},
		saved:    map[string]metrics.SavedFile{},
		procs:    map[int]metrics.Proc{},
		logs:     map[string]*logState{},
		files:    map[string]metrics.FileStat{},
		dirs:     map[string][]metrics.FileStat{},
		rows:     map[string]*rowState{},
		data:     map[string]*dataState{},
		sets:     map[string]*setState{},
		gpus:     newGPUState(),
		engine:   findings.New(metrics.Config{}),
		bad:      map[metrics.Kind]string{},
		restarts: map[string]string{},
		launched: map[launched]time.Time{},
	}
}

// Apply takes the next frame. A frame that cannot be read changes nothing but
// the entry in Snapshot.CannotTell that says so.
func (b *Board) Apply(f metrics.Frame) {
	b.snap = nil // a tick sets it again
	if b.begun.IsZero() {
		b.begun = f.At
	}
	if f.At.After(b.now) {
		b.now = f.At
	}
	if fromNode(f.Kind) {
		b.hear(f.At)
	}
	b.flushLogs(f.At)
	if err := b.apply(f); err != nil {
		b.bad[f.Kind] = metrics.Clean(err.Error(), 300)
		return
	}
	delete(b.bad, f.Kind)
}

func (b *Board) apply(f metrics.Frame) error {
	switch f.Kind {
	case metrics.KindTick:
		b.evaluate()
	case metrics.KindSession:
		return with(f, b.applySession)
	case metrics.KindLink:
		return with(f, b.applyLink)
	case metrics.KindProbe:
		return with(f, b.applyProbe)
	case metrics.KindSys:
		b.sys.apply(f)
	case metrics.KindDisk:
		return with(f, b.sys.applyDisk)
	case metrics.KindGPU, metrics.KindGPUStatic:
		b.applyGPU(f)
	case metrics.KindGPUApps:
		b.gpus.applyApps(f)
	case metrics.KindGPUError:
		return with(f, b.gpus.applyError)
	case metrics.KindFiles:
		return with(f, b.applyFiles)
	case metrics.KindDir:
		return with(f, b.applyDir)
	case metrics.KindRows:
		return with(f, b.applyRows)
	case metrics.KindLog:
		return b.applyLog(f)
	case metrics.KindScan:
		return with(f, b.applyScan)
	case metrics.KindAlive:
		return with(f, b.applyAlive)
	case metrics.KindHTTP:
		return b.applyHTTP(f)
	case metrics.KindKernel:
		b.applyKernel(f)
	case metrics.KindConfig:
		return with(f, b.configure)
	case metrics.KindGuards:
		return with(f, func(f metrics.Frame, g []metrics.Guard) { b.guards[f.Name] = g })
	case metrics.KindStarts:
		return with(f, func(_ metrics.Frame, s []metrics.Start) { b.importStarts(s) })
	case metrics.KindJournal:
		b.applyJournal(f)
	case metrics.KindAck:
		return with(f, func(_ metrics.Frame, a metrics.Ack) { b.engine.Apply(a) })
	case metrics.KindNote:
		return with(f, func(_ metrics.Frame, n metrics.Note) {
			n.Text = metrics.Clean(n.Text, 500)
			b.notes = append(slices.Clip(b.notes), n)
			b.event(metrics.Event{At: n.At, Kind: "note", Text: n.Text})
		})
	case metrics.KindSaved:
		return with(f, func(_ metrics.Frame, s metrics.Saved) {
			for _, sf := range s.Files {
				b.saved[sf.Path] = sf
			}
			for _, t := range s.Targets {
				if !slices.ContainsFunc(b.cfg.Targets, func(c metrics.ConfigTarget) bool { return c.Path == t.Path }) {
					b.cfg.Targets = append(slices.Clip(b.cfg.Targets), t)
				}
			}
		})
	}
	return nil
}

// with decodes a frame's JSON and hands it on.
func with[T any](f metrics.Frame, use func(metrics.Frame, T)) error {
	v, err := metrics.Decode[T](f)
	if err != nil {
		return err
	}
	use(f, v)
	return nil
}

// fromNode tells the frames that prove that the node answered.
func fromNode(k metrics.Kind) bool {
	switch k {
	case metrics.KindSession, metrics.KindSys, metrics.KindDisk, metrics.KindGPU, metrics.KindGPUStatic,
		metrics.KindGPUApps, metrics.KindFiles, metrics.KindDir, metrics.KindRows, metrics.KindLog,
		metrics.KindScan, metrics.KindAlive, metrics.KindHTTP, metrics.KindKernel:
		return true
	}
	return false
}

// local turns a moment of the node's clock into one of the local clock.
func (b *Board) local(node time.Time) time.Time {
	if node.IsZero() {
		return node
	}
	return node.Add(-b.offset)
}

// localUnix is local for unix seconds, zero for 0.
func (b *Board) localUnix(sec int64) time.Time {
	if sec == 0 {
		return time.Time{}
	}
	return b.local(time.Unix(sec, 0).UTC())
}

// startTime is when a process began, on the local clock; zero unknown.
func (b *Board) startTime(p metrics.Proc) time.Time {
	if t := b.cfg.Started[p.PID]; !t.IsZero() {
		return b.local(t)
	}
	ticks := p.Start
	if b.boot.IsZero() || ticks <= 0 {
		return time.Time{}
	}
	hz := b.session.HZ
	if hz <= 0 {
		hz = 100
	}
	return b.boot.Add(time.Duration(float64(ticks) / float64(hz) * float64(time.Second)))
}

// event files an event in order of time, once.
func (b *Board) event(e metrics.Event) {
	i, _ := slices.BinarySearchFunc(b.events, e, func(a, e metrics.Event) int { return a.At.Compare(e.At) })
	for j := i; j < len(b.events) && b.events[j].At.Equal(e.At); j++ {
		if b.events[j] == e {
			return
		}
		i = j + 1
	}
	if i == len(b.events) {
		b.events = append(b.events, e) // snapshots hold shorter slices of the same array
	} else {
		b.events = slices.Insert(slices.Clone(b.events), i, e)
	}
	if over := len(b.events) - eventsKeep; over > 0 {
		b.events = slices.Clone(b.events[over:])
	}
}
