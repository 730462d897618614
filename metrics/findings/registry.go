package findings

// Registry lists every detector in the order of the documentation.
func Registry() []Detector {
	return []Detector{
		clientLogSilent, rowsStalled, nothingSaved, workLost, clientGone, clientTwice, jobDone,
		rowsTorn, rowsShrank, rowsDuplicate, rowsPoor, rowsTruncated, rowsUnreadable, diskFilling, underfed,
		serverDown, serverReplaced, serverOOM, startSlow, startStuck, serverHung, serverHalfDead, repetition,
		headroomLow, kvSaturated, tooConservative, queueGrowing, settled, throughputFell,
		hicacheUnused, graphOff, guardBroken, wrongServer, logStale, twoServers,
		gpuMemoryHeld, gpuUneven, gpuThrottled, gpuLost, gpuToolStuck,
		hostMemoryLow, shmFull, swapUsed, linkDown, dataOld, clockSkew,
	}
}
