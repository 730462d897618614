package model

// What the host's memory holds beside the hierarchical cache, in bytes.
const (
	hostMemory  = 1008 * gib
	hostBase    = 24 * gib // kernel, container host, other services
	schedulerRS = 5*gib + 600*mib
	mainRS      = 3*gib + 200*mib
	detokRS     = 1*gib + 300*mib
	trackerRS   = 14 * mib
	clientRS    = 2*gib + 100*mib
	pageCache   = 470 * gib // the model's files, read once
	bufferCache = 2 * gib
)

// Host is the machine as it is now.
func (n *Node) Host() Host {
	h := Host{
		Hostname: "gpu7", BootID: "6b0a4c0e-3d5f-4f7e-9f43-0c2a71b7e5d1", BootAt: n.bootAt(),
		CPUs: 128, MemTotal: hostMemory, SwapTotal: 8 * gib, SwapFree: 8 * gib,
		ShmTotal: hostMemory / 2, ShmUsed: 3 * mib, Buffers: bufferCache, Cached: pageCache,
	}
	used, busy := int64(hostBase), 1.3
	for _, s := range n.servers() {
		h.Pinned += s.pinnedBytes()
		if len(s.roles) > 1 {
			h.ShmUsed += 700 * mib
		}
		busy += s.cores()
	}
	for _, p := range n.Processes() {
		used += p.RSS
	}
	seconds := n.at.Seconds()
	used += h.ShmUsed + int64(float64(wave(n.scenario.seed^11, seconds/20)*gib)/4)
	h.Shmem = h.ShmUsed
	h.MemFree = hostMemory - used - h.Cached - h.Buffers
	h.MemAvailable = h.MemFree + h.Cached + h.Buffers - 6*gib - h.Shmem
	busy += 0.4 * wave(n.scenario.seed^12, seconds/5)
	h.CPUUtil = busy / float64(h.CPUs)
	for i, period := range []float64{30, 120, 400} {
		h.Load[i] = max(0, busy+1.1+0.5*wave(n.scenario.seed^uint64(13+i), seconds/period))
	}
	rows := int64(0)
	for _, p := range n.parts {
		rows += int64(p.rows)
	}
	const dataTotal, dataUsed = 7_679 * int64(1e9), 5_660 * int64(1e9)
	used = dataUsed + rows*16_000
	h.Disks = []Disk{
		{Mount: "/", Device: "rpool/data/subvol-117-disk-0", Type: "zfs", Total: 400 * gib, Used: 141 * gib, Free: 259 * gib},
		{Mount: "/data", Device: "/dev/nvme1n1", Type: "xfs", Total: dataTotal, Used: used, Free: dataTotal - used},
	}
	return h
}

// servers are the newest server and those beside it that still live.
func (n *Node) servers() []*server {
	var list []*server
	for _, o := range n.extra {
		if o.server != nil && o.server.alive() {
			list = append(list, o.server)
		}
	}
	if n.srv != nil && n.srv.alive() {
		list = append(list, n.srv)
	}
	return list
}

// pinnedBytes is host memory that the server's ranks have page-locked.
func (s *server) pinnedBytes() int64 {
	if !s.pinned {
		return 0
	}
	return s.flags.hostBytes() * int64(s.flags.TP)
}

// cores is how many processors the server keeps busy: a serving scheduler
// spins on one, and so does a rank that loads.
func (s *server) cores() float64 {
	if len(s.roles) < 2 {
		return 1
	}
	return float64(s.flags.TP) + 0.8
}
