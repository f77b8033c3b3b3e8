package importer

import (
	"strings"
	"testing"
)

// The formats follow the manuals; names and numbers are invented.
const (
	pbsLog = "12/21/2009 15:27:00;E;6.server;user=alice group=staff jobname=x queue=q ctime=1261424924 qtime=1261424924 etime=1261424924 start=1261425023 exec_host=n1/0+n1/1 end=1261427220 Exit_status=0 resources_used.cput=00:00:11\n"
	lsfLog = `"JOB_FINISH" "9.11" 1389683139 404717 22025 33882739 128 1389642318 0 0 1389642771 "alice" "regular" "span[ptile=16]" "" ""` + "\n"
	sgeLog = "q:host:grp:alice:name:22947:sge:0:1310761621:1311095354:1311095414:0:0:60:60.05:0.08:104188.0:0:0:0:0:28001:0:0:0.0:24:0:0:0:41:549:NONE:dep:pe:1:0:60.1:7.3:0.0:-l h_rt=36000:0.0:NONE:189153280.0:0:0\n"
)

// TestForeign: the accounting of other batch systems is refused by name, once per file, by both
// readers, and files in supported formats are not mistaken for it.
func TestForeign(t *testing.T) {
	for text, want := range map[string]string{
		pbsLog: "PBS or Torque", "# comment\n" + lsfLog: "LSF", sgeLog: "Grid Engine (SGE)",
		strings.NewReplacer("1310761621", "1310761621000", "1311095354", "1311095354000", "1311095414", "1311095414000").Replace(sgeLog): "Univa Grid Engine",
	} {
		for _, name := range []string{"x", "x.sacct"} {
			l := newLab(t)
			r := l.take(name, strings.Repeat(text, 50))
			if r.BadCount != 1 || !strings.Contains(r.Bad[0].Err, want) || r.Taken != 0 || r.Records != 0 {
				t.Errorf("%s: %+v", want, r)
			}
		}
	}
	for _, text := range []string{accounted, said(0, 7, 70, 1, "a:b:c", 5, ""), "", "\n\n", `{"meta":{}}`, strings.Repeat("a:", 50)} {
		if got := foreign([]byte(text)); got != "" {
			t.Errorf("%.60q is taken for %s", text, got)
		}
	}
}

func FuzzForeign(f *testing.F) {
	for _, s := range []string{pbsLog, lsfLog, sgeLog} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(_ *testing.T, head []byte) { foreign(head) })
}
