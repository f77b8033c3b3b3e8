package sensor

import "reckon/figure"

// Lack is something that a source cannot count or distinguish. The agent derives the exactness of a figure from the
// lacks of its sources.
type Lack uint8

// The reasons why a source does not see all of a figure.
const (
	LackNothing Lack = iota

	// Of processes.
	LackEndedThreads   // use by threads that ended before it could be counted; [Process.Partial] names the process
	LackEndedProcesses // ends of processes and their use since the last reading
	LackLastMoments    // of ended processes, the last moments and the process group (taskstats)
	LackChildTimes     // and besides, the CPU time of children is not reported to parents
	LackOrphans        // CPU time that no parent has seen
	LackLate           // when CPU time was used: child times show it when it is over
	LackWhose          // the owner of the CPU time: another, or this one
	LackUnread         // processes that no reading and no record showed
	LackHistory        // use before the agent started
	LackEnd            // when the last process ended
	LackQuiet          // resources that were handed over to short work
	LackTogether       // how much several had at the same time
	LackReached        // whether it reached storage before it was deleted
	LackReachedSome    // the same, while not all writes are counted

	// Of memory.
	LackHuge        // explicit huge pages, which control groups count apart
	LackSharedPages // which pages several processes have in common
	LackScaled      // the same of some processes, for which others of the same program stand
	LackShmem       // shared memory, or memory of the kernel, of a control group
	LackUnmapped    // owners of shared memory that no process maps: files of tmpfs and memfd_create(2)
	LackReclaimable // which memory of the kernel can be given back (version 1)
	LackBuffered    // writes through the page cache (version 1)

	// Of tallies and devices.
	LackSpliced     // bytes that the kernel takes out of a socket without a call of the process
	LackOtherCalls  // calls by readv(2), io_uring, mmap(2), sendfile(2)
	LackUnderWay    // operations that have started and not finished
	LackWrittenBack // lines of the cache that are written back
	LackShared      // traffic of a device while several workloads used it
	LackRoom        // processes, or events, for which there was no room
	LackTurns       // events while others had the hardware counter
	LackMeter       // energy, which is computed by a model
	LackSplit       // how much of a device each of its users had

	Lacks int = iota
)

// exactnessOfLack is the best that a figure with each lack can be. Lacks that are small or pass by are accepted.
var exactnessOfLack = [Lacks]figure.Exactness{
	LackEndedThreads: figure.AtLeast, LackEndedProcesses: figure.AtLeast, LackLastMoments: figure.AtLeast, LackChildTimes: figure.AtLeast,
	LackOrphans: figure.AtLeast, LackLate: figure.Estimated, LackWhose: figure.Estimated, LackUnread: figure.AtLeast,
	LackHistory: figure.AtLeast, LackEnd: figure.AtLeast, LackQuiet: figure.AtLeast, LackTogether: figure.AtLeast,
	LackReached: figure.AtMost, LackReachedSome: figure.Estimated,
	LackHuge: figure.AtLeast, LackSharedPages: figure.AtMost, LackScaled: figure.Estimated, LackShmem: figure.AtLeast,
	LackUnmapped:    figure.AtLeast,
	LackReclaimable: figure.Estimated, LackBuffered: figure.AtLeast,
	LackSpliced: figure.AtLeast, LackWrittenBack: figure.Estimated, LackShared: figure.AtLeast, LackRoom: figure.AtLeast,
	LackTurns: figure.Estimated, LackMeter: figure.Modelled, LackSplit: figure.Estimated,
}

// Exactness returns the best that a figure with the lack can be.
func (l Lack) Exactness() figure.Exactness { return exactnessOfLack[l] }
