package jobs

import (
	core "k8s.io/api/core/v1"

	"reckon/kubernetes/operator/metricset"
)

func netmarkScript(m *metricset.Measure) *script {
	store := ""
	if m.Values.On("storeEachTrial") {
		store = "-s"
	}
	return &script{
		pre: joinLines(startShell, printMetadata, ranks, writeHosts, awaitHosts, echo(markStart)),
		command: joinWords(
			`mpirun -f ./hostlist.txt -np "$np" /usr/local/bin/netmark.x -w "$RECKON_WARMUPS" -t "$RECKON_TRIALS" -c "$RECKON_CYCLES" `+
				`-b "$RECKON_SIZE"`, store),
		post: joinLines(`echo "NETMARK RTT.CSV START"`, "cat RTT.csv", `echo "NETMARK RTT.CSV END"`, echo(markEnd)),
	}
}

func netmarkEnv(m *metricset.Measure) []core.EnvVar {
	return envVars("RECKON_WARMUPS", m.Values["warmups"], "RECKON_TRIALS", m.Values["trials"], "RECKON_CYCLES",
		m.Values["sendReceiveCycles"], "RECKON_SIZE", m.Values["messageSize"])
}

// hplInput is the input file HPL.dat of High-Performance Linpack, with variables of the script. HPL requires the lines
// in this order.
const hplInput = `cat <<RECKON_END > ./hpl.dat
HPLinpack benchmark input file
Innovative Computing Laboratory, University of Tennessee
HPL.out      output file name (if any)
6            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
${size}      Ns
1            # of NBs
${RECKON_BLOCKSIZE}  NBs
${RECKON_PMAP}       PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
${tasks}     Ps
${pods}      Qs
16.0         threshold
1            # of panel fact
${RECKON_PFACT}      PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
${RECKON_NBMIN}      NBMINs (>= 1)
1            # of panels in recursion
${RECKON_NDIV}       NDIVs
1            # of recursive panel fact.
${RECKON_RFACT}      RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
${RECKON_BCAST}      BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
${RECKON_DEPTH}      DEPTHs (>=0)
${RECKON_SWAP}       SWAP (0=bin-exch,1=long,2=mix)
${RECKON_THRESHOLD}  swapping threshold
${RECKON_L1}         L1 in (0=transposed,1=no-transposed) form
${RECKON_U}          U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
${RECKON_ALIGN}      memory alignment in double (> 0)
RECKON_END`

func hplScript(m *metricset.Measure) *script {
	return &script{
		pre: joinLines(startShell, printMetadata, writeHosts, awaitHosts, ". /opt/spack-environment/activate.sh", ranks,
			`memory=$RECKON_MEMORY`,
			`if [ "$memory" -eq 0 ]; then memory=$(awk '/MemFree/ { printf "%.3f", $2/1024/1024 }' /proc/meminfo); fi`,
			`size=$(compute_N -m "$memory" -NB "$RECKON_BLOCKSIZE" -r "$RECKON_RATIO" -N "$pods")`,
			`echo "memory $memory GiB, size $size"`,
			hplInput, addresses, echo(markStart), echo(markPoint)),
		command: joinWords("mpirun --allow-run-as-root --hostfile ./hostlist.txt -np $np", m.Values["mpiargs"], "xhpl"),
		post:    echo(markEnd),
	}
}

func hplEnv(m *metricset.Measure) []core.EnvVar {
	v := m.Values
	return envVars("RECKON_MEMORY", v["memory"], "RECKON_BLOCKSIZE", v["blocksize"], "RECKON_RATIO", v["ratio"], "RECKON_PMAP",
		v["row_or_colmajor_pmapping"],
		"RECKON_PFACT", v["pfact"], "RECKON_NBMIN", v["nbmin"], "RECKON_NDIV", v["ndiv"], "RECKON_RFACT", v["rfact"], "RECKON_BCAST",
		v["bcast"], "RECKON_DEPTH", v["depth"],
		"RECKON_SWAP", v["swap"], "RECKON_THRESHOLD", v["swappingThreshold"], "RECKON_L1", v["l1transposed"], "RECKON_U", v["utransposed"],
		"RECKON_ALIGN", v["memAlignment"])
}
