package kernel

import (
	"strconv"

	"github.com/runvigil/runvigil/metrics"
)

// Fault is one or several lines that tell the same.
type Fault struct {
	Event         // the first of them
	Count int     // how many lines
	Every float64 // mean seconds between them, 0 unknown
	// Primary marks the first fault that is no consequence of another.
	Primary bool
}

// Detail describes the fault in one line.
func (f Fault) Detail() string {
	d := f.Text
	if f.Count > 1 {
		d += " (" + strconv.Itoa(f.Count) + " times)"
	}
	return d
}

const maxFaults = 256

// State folds events into faults. The zero State is ready; its memory is bounded.
type State struct {
	faults []Fault
	tasks  int
}

// Apply folds one event in.
func (s *State) Apply(ev *Event) {
	if ev.Kind == KindOOMTask {
		s.tasks++
	}
	for i := range s.faults {
		f := &s.faults[i]
		if same(&f.Event, ev) {
			f.Count++
			if d := seconds(&f.Event, ev); d > 0 {
				f.Every = d / float64(f.Count-1)
			}
			if ev.AnonRSSKB >= 0 && f.AnonRSSKB < 0 {
				f.AnonRSSKB, f.FileRSSKB, f.TotalVMKB = ev.AnonRSSKB, ev.FileRSSKB, ev.TotalVMKB
			}
			return
		}
	}
	if len(s.faults) < maxFaults {
		s.faults = append(s.faults, Fault{Event: *ev, Count: 1})
	}
}

// same tells two lines about one fault.
func same(a, b *Event) bool {
	if a.Kind != b.Kind || a.Consequence != b.Consequence {
		return false
	}
	switch a.Kind {
	case KindOOMTask:
		return true
	case KindXid:
		return a.Xid == b.Xid && a.Bus == b.Bus && a.PID == b.PID
	case KindGSP, KindLost:
		return a.Bus == b.Bus && a.GPU == b.GPU
	}
	return a.PID == b.PID && a.Name == b.Name
}

func seconds(a, b *Event) float64 {
	if a.Uptime >= 0 && b.Uptime >= 0 {
		return b.Uptime - a.Uptime
	}
	if !a.At.IsZero() && !b.At.IsZero() {
		return b.At.Sub(a.At).Seconds()
	}
	return 0
}

// Tasks is how many rows of the OOM killer's tables were seen.
func (s *State) Tasks() int { return s.tasks }

// Faults are the faults in the order in which they began. The first that is no
// consequence is the primary one; where all are (the killer's table without its
// victim), the first. Hung tasks alone have no class and are never primary.
func (s *State) Faults() []Fault {
	out := append([]Fault(nil), s.faults...)
	primary := -1
	for i, f := range out {
		if f.Class == "" {
			continue
		}
		if primary < 0 || out[primary].Consequence && !f.Consequence {
			primary = i
		}
		if !out[primary].Consequence {
			break
		}
	}
	if primary >= 0 {
		out[primary].Primary = true
		// Whatever the same GPU reports afterwards follows from its first fault.
		first := out[primary]
		for i := primary + 1; i < len(out); i++ {
			if f := &out[i]; first.Bus != "" && f.Bus == first.Bus || first.GPU >= 0 && f.GPU == first.GPU {
				f.Consequence = true
			}
		}
	}
	return out
}

// Victim tells whether the kernel killed this process for memory.
func (s *State) Victim(pid int) (Fault, bool) {
	for _, f := range s.faults {
		if f.Kind == KindOOMKill && f.PID == pid {
			return f, true
		}
	}
	return Fault{}, false
}

// Advice is what to do about a fault.
func (f Fault) Advice() string {
	if f.Kind == KindOOMKill && f.Cgroup {
		return "Raise the memory limit of the container, or lower --hicache-size and other pinned memory; the node itself had memory."
	}
	if f.Class == metrics.CauseGPUFirmwareTimeout && f.Name == "nvidia-smi" {
		return "Stop polling nvidia-smi, which hangs with the firmware and is the victim; reset the GPU or restart the machine."
	}
	info, _ := f.Class.Info()
	return info.Advice
}
