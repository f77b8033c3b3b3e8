package metricset

import (
	"maps"
	"slices"
)

// chatterbug maps the proxies of Chatterbug, by the names that files use, to the folders of their programs.
func chatterbug() map[string]string {
	return map[string]string{"pairs": "pairs", "ping-pong": "ping-ping", "spread": "spread", "stencil3d": "stencil3d",
		"stencil4d":     "stencil4d",
		"subcom2d-coll": "subcom2d-coll", "subcom2d-a2a": "subcom3d-a2a", "unstr-mesh": "unstr-mesh"}
}

func chatterbugNames() []string { return slices.Sorted(maps.Keys(chatterbug())) }

// ChatterbugProgram returns the path of a proxy's program in the image.
func ChatterbugProgram(name string) string {
	folder := chatterbug()[name]
	return "/root/chatterbug/" + folder + "/" + folder + ".x"
}

const (
	oneSided   = "one-sided"
	pairwise   = "pt2pt"
	collective = "collective"
	startup    = "startup"
)

// osu maps the programs of the OSU micro-benchmarks to their folder.
func osu() map[string]string {
	folders := map[string][]string{
		oneSided: {"osu_get_acc_latency", "osu_acc_latency", "osu_fop_latency", "osu_get_latency", "osu_put_latency", "osu_cas_latency",
			"osu_get_bw", "osu_put_bibw", "osu_put_bw"},
		collective: {"osu_allreduce", "osu_allgather", "osu_allgatherv", "osu_alltoall", "osu_alltoallv", "osu_barrier", "osu_bcast",
			"osu_gather", "osu_gatherv",
			"osu_iallgather", "osu_iallgatherv", "osu_iallreduce", "osu_ialltoall", "osu_ialltoallv", "osu_ialltoallw", "osu_ibarrier",
			"osu_ibcast", "osu_igather",
			"osu_igatherv", "osu_ireduce", "osu_iscatter", "osu_iscatterv", "osu_reduce", "osu_reduce_scatter", "osu_scatter",
			"osu_scatterv"},
		pairwise: {"osu_latency", "osu_bibw", "osu_bw", "osu_latency_mp", "osu_latency_mt", "osu_mbw_mr", "osu_multi_lat"},
		startup:  {"osu_hello", "osu_init"},
	}
	out := map[string]string{}
	for folder, names := range folders {
		for _, name := range names {
			out[name] = folder
		}
	}
	return out
}

func osuNames() []string { return slices.Sorted(maps.Keys(osu())) }

// OSUDefaults returns the programs that run where a file names none.
func OSUDefaults() []string {
	return []string{"osu_get_acc_latency", "osu_acc_latency", "osu_fop_latency", "osu_get_latency", "osu_put_latency", "osu_allreduce",
		"osu_latency", "osu_bibw", "osu_bw"}
}

// OSUAll returns all programs, by name.
func OSUAll() []string { return osuNames() }

// OSUProgram returns the path of a benchmark program in the image and its arguments for mpirun. pair reports whether it
// runs only between two ranks.
func OSUProgram(name string) (path string, pair bool, flags string) {
	folder := osu()[name]
	path = "/opt/osu-benchmark/build.openmpi/libexec/osu-micro-benchmarks/mpi/" + folder + "/" + name
	pair = folder == oneSided || folder == pairwise && name != "osu_mbw_mr" && name != "osu_multi_lat"
	if pair {
		return path, true, "-np 2 -map-by ppr:1:node"
	}
	return path, false, "-np $np -map-by ppr:$tasks:node -rank-by core"
}
