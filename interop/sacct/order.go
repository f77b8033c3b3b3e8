package sacct

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// order is the columns of an export that programs make without a line of names.
type order struct {
	name   string
	fields []string
	zone   *time.Location // of its times; nil is the machine's
}

// orders are those that are known: of sonar (its command "sonar slurm", and its releases
// that wrote what sacct gave), and of Open XDMoD, which asks with TZ=UTC
// (https://open.xdmod.org, resource manager notes for Slurm; releases before 10.0 had no qos).
func orders() []order {
	return []order{
		{"sonar", strings.Split("JobID,JobIDRaw,User,Account,State,Start,End,AveCPU,AveDiskRead,AveDiskWrite,AveRSS,AveVMSize,"+
			"ElapsedRaw,ExitCode,Layout,MaxRSS,MaxVMSize,MinCPU,ReqCPUS,ReqMem,ReqNodes,Reservation,Submit,Suspended,SystemCPU,"+
			"TimelimitRaw,UserCPU,NodeList,Partition,AllocTRES,Priority,JobName", ","), nil},
		{"Open XDMoD", strings.Split("JobID,JobIDRaw,Cluster,Partition,QOS,Account,Group,GID,User,UID,Submit,Eligible,Start,End,Elapsed,"+
			"ExitCode,State,NNodes,NCPUS,ReqCPUS,ReqMem,ReqTRES,AllocTRES,Timelimit,NodeList,JobName", ","), time.UTC},
		{"Open XDMoD before 10.0", strings.Split("JobID,JobIDRaw,Cluster,Partition,Account,Group,GID,User,UID,Submit,Eligible,Start,End,Elapsed,"+
			"ExitCode,State,NNodes,NCPUS,ReqCPUS,ReqMem,ReqTRES,AllocTRES,Timelimit,NodeList,JobName", ","), time.UTC},
	}
}

var errUnknownOrder = errors.New("the order of the fields is not known")

// orderOf finds the order of a line. Names may hold the separator, so it may have more
// fields than the order; whether it is that one shows in that its times can be read.
func orderOf(cells []string) (order, error) {
	var found *order
	all := orders()
	for i := range all {
		o := &all[i]
		if len(cells) < len(o.fields) || (found != nil && len(o.fields) <= len(found.fields)) {
			continue
		}
		p := parser{fields: o.fields, sep: "|", o: Options{Zone: o.zone}}
		j, err := p.parse(cells[:len(o.fields)])
		if err == nil && !j.Submit.IsZero() && j.State != "" && len(cells)-len(o.fields) <= maxTries {
			found = o
		}
	}
	if found != nil {
		return *found, nil
	}
	if len(cells) == 1 {
		return order{}, errors.New("its fields have no | or ^ between them: export again with sacct --parsable2 (columns for people, JSON and YAML are not read)")
	}
	var known []string
	for _, o := range all {
		known = append(known, fmt.Sprintf("%d of %s", len(o.fields), o.name))
	}
	return order{}, fmt.Errorf("%d fields and no names for them, and it is none of the orders that are known (%s): name them by --fields, or export again with a line of names (sacct without --noheader)",
		len(cells), strings.Join(known, ", "))
}
