package model

import (
	"fmt"
	"math"
	"time"
)

const (
	gpuName    = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
	gpuCount   = 8
	powerLimit = 600
	idlePower  = 34
	clockTop   = 2430
	clockMem   = 12481
)

var gpuBuses = [gpuCount]int{0x01, 0x11, 0x61, 0x71, 0x81, 0x91, 0xC1, 0xE1}

// load is how hard a card works now: share of time busy, 0 to 1, and what it
// does with memory.
func (s *server) load() (util, mem float64) {
	switch {
	case s == nil || !s.alive():
		return 0, 0
	case s.phase == PhaseWeights:
		return 0.02, 0.03
	case s.phase == PhaseCapture:
		return 0.62, 0.2
	case s.eng == nil:
		return 0, 0
	case s.eng.hung && len(s.eng.running)+len(s.eng.batch) > 0:
		return 1, 0 // a collective that waits spins
	case s.eng.hung:
		return 0, 0
	case len(s.eng.running)+len(s.eng.batch) > 0:
		return 0.985, 0.41
	}
	return 0, 0
}

// power is what a card draws for its work: a decode step of few requests waits
// for memory and for the other cards.
func (s *server) power() float64 {
	util, _ := s.load()
	switch {
	case util == 0:
		return 0
	case s.eng == nil:
		return util * 190
	case s.eng.hung:
		return 112
	}
	return 330 + float64(min(len(s.eng.running), 200))*0.75
}

// GPUs are the cards as they are now, by index.
func (n *Node) GPUs() []GPU {
	list := make([]GPU, 0, gpuCount)
	second := n.at.Seconds()
	for i := range gpuCount {
		g := GPU{
			Index: i, Name: gpuName, UUID: gpuUUID(i), Bus: fmt.Sprintf("00000000:%02X:00.0", gpuBuses[i]),
			Serial: fmt.Sprintf("17925240%05d", 31_007+i*811), Lost: i == n.lost, TotalMiB: cardBytes / mib, Fan: -1,
			PowerLimit: powerLimit, MemTemp: 0, PState: "P8", ClockSM: 180, ClockMem: 405,
		}
		if g.Lost {
			list = append(list, g)
			continue
		}
		noise := func(k uint64, period float64) float64 {
			return wave(n.scenario.seed^(uint64(i)*977+k), second/period)
		}
		power, temp := float64(idlePower), 33.0
		for _, s := range n.servers() {
			if i >= s.flags.TP || len(s.roles) < 2 {
				continue
			}
			util, mem := s.load()
			power += s.power()
			if util > 0 {
				g.Util = min(100, int(math.Round(100*util+1.2*noise(1, 1.3))))
				g.MemUtil = max(0, int(math.Round(100*mem+2.5*noise(2, 1.7))))
			}
			rank := Scheduler(i)
			if s.has(rank) {
				used := int(s.gpuMemory(i) / mib)
				g.UsedMiB += used
				g.Processes = append(g.Processes, GPUProcess{PID: s.pids[rank], Role: rank, Name: s.title(rank), UsedMiB: used})
			}
			if s.phase > "" && s.phase != PhaseImport {
				g.PState, g.ClockSM, g.ClockMem = "P1", clockTop-int(20*math.Abs(noise(3, 4))), clockMem
			}
		}
		for _, o := range n.extra {
			if o.orphan != nil && o.orphan.rank == i {
				used := int(o.orphan.bytes / mib)
				g.UsedMiB += used
				g.Processes = append(g.Processes, GPUProcess{PID: o.orphan.pid, Role: Orphan, Name: fmt.Sprintf("sglang::scheduler_TP%d", i), UsedMiB: used})
			}
		}
		g.Power = math.Round(100*(power+power*0.02*noise(4, 2)+float64(i%3)*1.5)) / 100
		temp += (g.Power-idlePower)*0.079 + float64(i*3%5) + 0.8*noise(5, 30)
		g.Temp = int(math.Round(temp))
		if g.UsedMiB == 0 {
			g.UsedMiB = 1
		}
		g.FreeMiB = g.TotalMiB - g.UsedMiB
		list = append(list, g)
	}
	return list
}

func (s *server) has(role Role) bool {
	for _, r := range s.roles {
		if r == role {
			return true
		}
	}
	return false
}

// title is what ps and nvidia-smi show of a scheduler.
func (s *server) title(role Role) string {
	rank, _ := role.rank()
	if s.phase == PhaseImport {
		return "python3"
	}
	if s.flags.VLLM {
		return s.vllmTitle(role)
	}
	if s.flags.TP == 1 {
		return "sglang::scheduler"
	}
	return fmt.Sprintf("sglang::scheduler_TP%d", rank)
}

func gpuUUID(i int) string {
	a, b := mix(uint64(i)+0x6F0A), mix(uint64(i)+0x91C3)
	return fmt.Sprintf("GPU-%08x-%04x-%04x-%04x-%012x", uint32(a), uint16(a>>32), uint16(a>>48), uint16(b), b>>16)
}

// loseGPU lets a card fall off the bus: the engine's next collective never
// ends, and the kernel says so.
func (n *Node) loseGPU(i int) {
	n.lost = i
	bus := fmt.Sprintf("0000:%02x:00", gpuBuses[i])
	for k, text := range []string{
		fmt.Sprintf("NVRM: GPU at PCI:%s: %s", bus, gpuUUID(i)),
		fmt.Sprintf("NVRM: Xid (PCI:%s): 79, pid=%d, name=sglang::schedul, GPU has fallen off the bus.", bus, n.pidOf(Scheduler(i))),
		fmt.Sprintf("NVRM: GPU %s.0: GPU has fallen off the bus.", bus),
	} {
		n.kernel(time.Duration(k)*40*time.Microsecond, text)
	}
	if n.srv != nil && n.srv.eng != nil {
		n.srv.eng.hang()
	}
}

// kernel writes a line of the kernel log, stamped as dmesg prints it.
func (n *Node) kernel(later time.Duration, text string) {
	at := n.Now().Add(later)
	up := at.Sub(n.bootAt()).Seconds()
	n.out.Kernel = append(n.out.Kernel, Chunk{At: at, Text: fmt.Sprintf("[%12.6f] %s\n", up, text)})
}

func (n *Node) bootAt() time.Time { return n.epoch.Add(-41 * 24 * time.Hour) }
