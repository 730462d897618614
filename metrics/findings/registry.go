package findings

// Registry lists every detector in the order of the documentation.
func Registry() []Detector {
	return []Detector{
		clientLogSilent,
		rowsStalled,
		clientGone,
		jobDone,
		serverDown,
		serverOOM,
		serverHung,
		headroomLow,
		settled,
		gpuLost,
		linkDown,
	}
}
