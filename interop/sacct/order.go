package sacct

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// order is a column order of exports without a header line, as written by some programs.
type order struct {
	name   string
	fields []string
	zone   *time.Location // of its times; nil is the machine's
}

// fieldOrders returns the known field orders: the orders of sonar ("sonar slurm", and older releases with the fields of
// sacct) and of Open XDMoD, which sets TZ=UTC (https://open.xdmod.org, resource manager notes for Slurm; no qos
// before 10.0).
func fieldOrders() []order {
	const xdmod = "JobID,JobIDRaw,Cluster,Partition,Account,Group,GID,User,UID,Submit,Eligible,Start,End,Elapsed,ExitCode,State," +
		"NNodes,NCPUS,ReqCPUS,ReqMem,ReqTRES,AllocTRES,Timelimit,NodeList,JobName"
	return []order{
		{"sonar", strings.Split("JobID,JobIDRaw,User,Account,State,Start,End,AveCPU,AveDiskRead,AveDiskWrite,AveRSS,AveVMSize,"+
			"ElapsedRaw,ExitCode,Layout,MaxRSS,MaxVMSize,MinCPU,ReqCPUS,ReqMem,ReqNodes,Reservation,Submit,Suspended,SystemCPU,"+
			"TimelimitRaw,UserCPU,NodeList,Partition,AllocTRES,Priority,JobName", ","), nil},
		{"Open XDMoD", strings.Split(strings.Replace(xdmod, "Account", "QOS,Account", 1), ","), time.UTC},
		{"Open XDMoD before 10.0", strings.Split(xdmod, ","), time.UTC},
	}
}

var errUnknownOrder = errors.New("the field order is unknown")

// orderOf returns the first known field order that matches a line. An order matches if its times can be parsed. A line
// may have more cells than the order has fields, because a job name may contain the separator.
func orderOf(cells []string) (order, error) {
	var found *order
	all := fieldOrders()
	for i := range all {
		o := &all[i]
		if len(cells) < len(o.fields) || (found != nil && len(o.fields) <= len(found.fields)) {
			continue
		}
		p := parser{fields: o.fields, sep: "|", o: Options{Zone: o.zone}}
		j, err := p.parseCells(cells[:len(o.fields)])
		if err == nil && len(j.Unread) == 0 && !j.Submit.IsZero() && j.State != "" && len(cells)-len(o.fields) <= maxTries {
			found = o
		}
	}
	if found != nil {
		return *found, nil
	}
	if len(cells) == 1 {
		return order{}, errors.New(
			"its fields have no | or ^ between them: export again with sacct --parsable2 (columns for people and YAML are not read)")
	}
	var known []string
	for _, o := range all {
		known = append(known, fmt.Sprintf("%d of %s", len(o.fields), o.name))
	}
	return order{}, fmt.Errorf(
		"%d fields and no names for them, and not one of the known orders (%s): name them by --fields, or export again with a line of "+
			"names (sacct without --noheader)",
		len(cells), strings.Join(known, ", "))
}
