package dashboards

import (
	"fmt"
	"regexp"
	"strings"
)

const idLegend = "{{workload}}"

var (
	firstSeries = regexp.MustCompile(`reckon_workload_\w+\{[^}]*\}`)
	infoFilter  = regexp.MustCompile(`(site|workload)=~"\$\w+"`)
)

// withName puts the name of a workload before its id in the legend of a query by workload: the name
// of the job, pod or service, or the command. It joins the name from reckon_workload_info. topk
// selects one name if there are several. Workloads without a name keep their series from the query,
// so that no line is lost.
func withName(q Query) Query {
	series := firstSeries.FindString(q.Expr)
	if !strings.Contains(q.Legend, idLegend) || series == "" {
		return q
	}
	filter := strings.Join(infoFilter.FindAllString(series, -1), ",")
	named := func(match string) string {
		return "reckon_workload_info{" + strings.Join(append(strings.Fields(filter), match), ",") + "}"
	}
	q.Expr = fmt.Sprintf(
		`(%s) * on (workload) group_left (name) (topk by (workload) (1, group by (workload, name) (%s or label_replace(%s, "name", "$1",`+
			` "command", "(.+)"))) or on (workload) group by (workload) (%s))`,
		q.Expr, named(`name!=""`), named(`name=""`), series)
	if q.Instant {
		q.Expr = "sort_desc(" + q.Expr + ")" // the join loses the order of topk
	}
	q.Legend = strings.Replace(q.Legend, idLegend, "{{name}} "+idLegend, 1)
	return q
}

// withNames does so for each query of a dashboard.
func withNames(d Dashboard) Dashboard {
	for _, r := range d.Rows {
		for _, p := range r.Panels {
			for i := range p.Queries {
				p.Queries[i] = withName(p.Queries[i])
			}
		}
	}
	return d
}
