package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/nvidia"
)

// gpu reads the output of nvidia-smi and its relatives.
func (r *Report) gpu(data []byte) {
	rep, _ := nvidia.ParseAny(data)
	r.note("format " + string(rep.Format))
	driver, cuda := str(rep.Driver), str(rep.CUDA)
	for i := range rep.Rows {
		row := &rep.Rows[i]
		g := gpuRow(row)
		g.Driver, g.CUDA = driver, cuda
		if row.Driver != "" {
			g.Driver = str(row.Driver)
		}
		for _, p := range rep.Procs {
			if p.GPU == row.Index && p.GPU >= 0 || p.UUID != "" && p.UUID == row.UUID || p.GPU < 0 && p.UUID == "" && len(rep.Rows) == 1 {
				g.Processes = append(g.Processes, process(p))
			}
		}
		r.GPUs = append(r.GPUs, g)
		if row.Unified() {
			text := "the GPU shares the host's memory: its memory figures are the host's (MemTotal, MemAvailable)"
			if rep.MemTotalKB.OK {
				text += fmt.Sprintf("; MemTotal %.0f kB", rep.MemTotalKB.V)
			}
			r.note(text)
			figures(r.GPUs[len(r.GPUs)-1].Figures).put("host_mem_total_kb", rep.MemTotalKB.V, rep.MemTotalKB.OK)
		}
	}
	r.bareProcesses(&rep)
	if rep.ProcsUnknown {
		r.find("processes-unknown", metrics.SeverityInfo, "", "the tool could not list the processes on the GPUs", "Not Supported is not none", "")
	}
	for _, f := range rep.Failures {
		r.failure(f)
	}
	for i := range rep.Rows {
		r.judgeGPU(&rep.Rows[i])
	}
	r.ghosts(&rep)
}

// bareProcesses tells of GPUs of which only the processes are known.
func (r *Report) bareProcesses(rep *nvidia.Report) {
	if len(rep.Rows) > 0 {
		return
	}
	at := map[string]int{}
	for _, p := range rep.Procs {
		key := fmt.Sprint(p.GPU, p.UUID)
		i, there := at[key]
		if !there {
			row := nvidia.Row{Index: p.GPU, UUID: p.UUID, GI: -1, CI: -1, Device: -1}
			i = len(r.GPUs)
			at[key] = i
			r.GPUs = append(r.GPUs, gpuRow(&row))
		}
		r.GPUs[i].Processes = append(r.GPUs[i].Processes, process(p))
	}
}

func (r *Report) failure(f nvidia.Failure) {
	detail := f.Text
	if f.Lib != "" && !strings.Contains(detail, f.Lib) {
		detail += " (library " + f.Lib + ")"
	}
	if len(f.Bus) > 0 {
		detail += fmt.Sprintf(" (%d GPU: %s)", len(f.Bus), strings.Join(f.Bus, ", "))
	}
	if f.Cause == "" {
		r.find("tool-failed", metrics.SeverityWarning, "", f.Text, string(f.Kind), "")
		return
	}
	info, _ := f.Cause.Info()
	r.cause(f.Cause, detail, strings.Join(f.Bus, ","), 0, r.Primary() == nil)
	r.advise(info.Advice)
}

// judgeGPU tells what a row says about its card.
func (r *Report) judgeGPU(row *nvidia.Row) {
	name := fmt.Sprintf("GPU %d", row.Index)
	if row.Index < 0 {
		name = "a GPU"
	}
	switch row.Health() {
	case nvidia.Gone, nvidia.Reset:
		r.sign("gpu-lost", metrics.SeverityCritical, metrics.CauseGPULost, name+" is lost or wants a reset", lostText(row), 0)
	case nvidia.Suspect:
		r.sign("gpu-lost", metrics.SeverityCritical, metrics.CauseGPULost, name+" cannot be read any more", "several figures are errors", 0)
	}
	if row.ECC.OK && row.ECC.V > 0 {
		r.sign("gpu-ecc", metrics.SeverityWarning, metrics.CauseGPUECC, fmt.Sprintf("%s has %.0f uncorrected memory errors", name, row.ECC.V), "", 0)
	}
	thermal := slices.ContainsFunc(row.Throttled(), func(s string) bool { return strings.Contains(s, "Thermal") || strings.Contains(s, "HW") })
	if thermal {
		r.sign("gpu-throttled", metrics.SeverityWarning, metrics.CauseGPUThrottled, name+" is slowed down: "+strings.Join(row.Throttled(), ", "), "", 0)
	} else if t := row.Throttled(); len(t) > 0 {
		info, _ := metrics.CauseGPUThrottled.Info()
		r.find("gpu-throttled", metrics.SeverityInfo, metrics.CauseGPUThrottled, name+" is at its limit: "+strings.Join(t, ", "), "normal under load", info.Advice)
	}
	if row.MemUsed.OK && row.MemTotal.V > 0 && row.Util.OK && row.Util.V == 0 && row.MemUsed.V > 0.5*row.MemTotal.V {
		r.note(fmt.Sprintf("%s: loaded and idle (%.0f of %.0f MiB held, 0 %% busy)", name, row.MemUsed.V, row.MemTotal.V))
	}
}

// ghosts looks for memory whose holder cannot be named.
func (r *Report) ghosts(rep *nvidia.Report) {
	for _, p := range rep.Procs {
		if p.Ghost {
			r.sign("gpu-memory-held", metrics.SeverityWarning, metrics.CauseGPUMemoryHeld, "GPU memory is held by a process that cannot be named",
				"the process is gone, or lives in another container, and its context is not", 0)
			return
		}
	}
}

func lostText(row *nvidia.Row) string {
	for _, n := range []nvidia.Num{row.MemUsed, row.Util, row.Temp, row.Power, row.Fan} {
		if !n.OK && (n.Why == nvidia.Lost || n.Why == nvidia.NeedsReset) {
			return n.Raw
		}
	}
	return row.Recovery
}

func gpuRow(row *nvidia.Row) GPU {
	n := func(v nvidia.Num) *float64 { return known(v.V, v.OK) }
	g := GPU{
		Name: str(row.Name), UUID: str(row.UUID), Bus: str(row.BusID),
		MemoryUsed: n(row.MemUsed), MemoryTotal: n(row.MemTotal), MemoryFree: n(row.MemFree), Util: n(row.Util), MemUtil: n(row.MemUtil),
		Temp: n(row.Temp), Power: n(row.Power), PowerLimit: n(row.PowerLimit), Fan: n(row.Fan), ClockSM: n(row.ClockSM), ClockMem: n(row.ClockMem),
		PState: str(row.PState), MIG: str(row.MIG), ECC: str(row.ECCMode), Throttle: []string{}, Unified: row.Unified(),
		Figures: map[string]float64{}, Processes: []GPUProcess{},
	}
	if row.Index >= 0 {
		i := row.Index
		g.Index = &i
	}
	if g.Power == nil {
		g.Power = n(row.PowerNow)
	}
	for _, t := range row.Throttled() {
		g.Throttle = append(g.Throttle, clean(t))
	}
	if h := row.Health(); h != nvidia.Fine {
		if g.Lost = str(lostText(row)); g.Lost == nil {
			g.Lost = str("figures are errors")
		}
	}
	fig := figures(g.Figures)
	for _, f := range []struct {
		name string
		v    nvidia.Num
	}{
		{"memory_reserved_mib", row.MemReserved}, {"memory_pct", row.MemPercent}, {"memory_temp_c", row.TempMem}, {"slowdown_temp_c", row.TempSlow},
		{"power_default_w", row.PowerMax}, {"clock_max_sm_mhz", row.ClockMaxSM}, {"ecc_uncorrected", row.ECC}, {"power_violation_pct", row.PViol},
		{"thermal_violation", row.TViol},
	} {
		fig.put(f.name, f.v.V, f.v.OK)
	}
	fig.put("mig_devices", float64(len(row.Instances)), len(row.Instances) > 0)
	for _, p := range row.Procs {
		g.Processes = append(g.Processes, process(p))
	}
	return g
}

func process(p nvidia.App) GPUProcess {
	out := GPUProcess{Name: str(p.Name), Memory: known(p.Used.V, p.Used.OK), Ghost: p.Ghost}
	if p.PID > 0 {
		pid := p.PID
		out.PID = &pid
	}
	return out
}
