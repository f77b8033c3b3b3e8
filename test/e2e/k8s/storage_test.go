//go:build e2e_k8s

package k8s

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// storage: what a pod keeps in an emptyDir on the disk of the node, in one in memory, in its writable layer and in its logs, beside what
// it wrote.
func (b *bed) storage(t *testing.T) {
	c := container("main", `dd if=/dev/urandom of=/disk/f bs=1M count=20; dd if=/dev/zero of=/mem/f bs=1M count=5; dd if=/dev/urandom of=/written bs=1M count=3
i=0; while [ $i -lt 2000 ]; do echo 0123456789012345678901234567890123456789012345678; i=$((i+1)); done; while :; do sleep 1; done`)
	c["volumeMounts"] = []object{{"name": "disk", "mountPath": "/disk"}, {"name": "mem", "mountPath": "/mem"}}
	spec := pod("Always", c)
	spec["volumes"] = []object{{"name": "disk", "emptyDir": object{}}, {"name": "mem", "emptyDir": object{"medium": "Memory", "sizeLimit": "16Mi"}}}
	b.apply(named("Pod", "v1", "keeper", spec))
	const of = `{workload="pod/shop/keeper",`
	b.until(4*time.Minute, "what a pod keeps", func() string {
		var wrong []string
		for q, want := range map[string]float64{
			"reckon_pod_volume_used_bytes" + of + `volume="disk",plugin="empty-dir"}`:           20 << 20,
			"reckon_pod_volume_used_bytes" + of + `volume="mem",plugin="empty-dir"}`:            5 << 20,
			"reckon_pod_volume_capacity_bytes" + of + `volume="mem",plugin="empty-dir"}`:        16 << 20,
			"reckon_container_storage_bytes" + of + `part="main",type="writable_layer"}`:        3 << 20,
			"reckon_container_storage_bytes" + of + `part="main",type="logs"}`:                  2000 * 90, // the runtime puts time, stream and a letter before each
			`count(reckon_pod_volume_capacity_bytes` + of + `volume="disk"}) or on() vector(0)`: 0,
		} {
			list, err := b.query(q)
			if err != nil || len(list) != 1 {
				wrong = append(wrong, fmt.Sprintf("%s: %v %v", q, list, err))
				continue
			}
			if v, _ := strconv.ParseFloat(list[0].Value, 64); v < want || v > want+64<<10 && want > 0 || want == 0 && v != 0 {
				wrong = append(wrong, fmt.Sprintf("%s is %v, want %v", q, v, want))
			}
		}
		return strings.Join(wrong, "\n")
	})
	if list, err := b.query(`reckon_sensor_up{sensor="pod-storage"} == 0`); err != nil || len(list) != 0 {
		t.Errorf("the sensor is down: %v %v", list, err)
	}
	b.must("kubectl", "-n", "shop", "delete", "pod", "keeper", "--now")
}
