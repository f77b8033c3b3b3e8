package query

import (
	"testing"
	"time"

	"reckon/figure"
	"reckon/store/storetest"
)

// TestDevices: rates and means of one node, without other nodes, ended devices or operations that did not occur.
func TestDevices(t *testing.T) {
	w := newWriter(t)
	now := storetest.Now()
	for i := range 9 { // two minutes
		at, sec := now.Add(time.Duration(i-8)*15*time.Second), float64(i*15)
		w.put(at, "n1", "node_disk_io_time_seconds_total", sec*0.5, "device", "sda")
		w.put(at, "n1", "node_disk_io_time_weighted_seconds_total", sec*3, "device", "sda")
		w.put(at, "n1", "node_disk_read_bytes_total", sec*1000, "device", "sda")
		w.put(at, "n1", "node_disk_read_time_seconds_total", sec*0.2, "device", "sda")
		w.put(at, "n1", "node_disk_reads_completed_total", sec*10, "device", "sda")
		w.put(at, "n1", "node_disk_write_time_seconds_total", 7, "device", "sda")
		w.put(at, "n1", "node_disk_writes_completed_total", 9, "device", "sda")
		for id, k := range map[string]float64{"slurm/1": 0.5, "slurm/2": 2} {
			w.put(at, "n1", diskWait, sec*k, "workload", id, "kind", "slurm", "part", "", "owner", "a", "device", "sda")
			w.put(at, "n1", diskWait, sec*k, "workload", id, "kind", "slurm", "part", "", "owner", "a", "device", "other")
		}
		w.put(at, "n2", "node_disk_io_time_seconds_total", sec, "device", "sdb")
		w.put(at, "n2", figure.NodeCPU, sec, "cpu", "0", "mode", "user")
		for _, o := range []string{"read", "write", "metadata"} {
			w.put(at, "n1", "reckon_mount_operations_total", sec*100, "type", "nfs", "source", "s:/home", "operation", o)
		}
		w.put(at, "n1", "reckon_mount_operation_seconds_total", sec*5, "type", "nfs", "source", "s:/home", "operation", "metadata")
		w.put(at, "n1", "reckon_mount_bytes_total", sec*64, "type", "nfs", "source", "s:/home", "direction", "write")
		w.put(at, "n1", "reckon_mount_retransmissions_total", sec*2, "type", "nfs", "source", "s:/home")
		for id, k := range map[string]float64{"slurm/1": 1, "slurm/2": 3} {
			w.put(at, "n1", "reckon_workload_mount_operations_total", sec*1000*k, "workload", id, "kind", "slurm", "part", "", "owner", "a", "type", "nfs", "source", "s:/home", "operation", "metadata") // calls, of which the server sees 100
			w.put(at, "n1", "reckon_workload_mount_bytes_total", sec*100*k, "workload", id, "kind", "slurm", "part", "", "owner", "a", "type", "fuse.sshfs", "source", "h:/d", "direction", "read")
			w.put(at, "n1", "reckon_workload_mount_operations_total", sec*10*k, "workload", id, "kind", "slurm", "part", "", "owner", "a", "type", "fuse.sshfs", "source", "h:/d", "operation", "metadata")
			w.put(at, "n1", "reckon_workload_mount_operation_seconds_total", sec*0.1*k, "workload", id, "kind", "slurm", "part", "", "owner", "a", "type", "fuse.sshfs", "source", "h:/d", "operation", "metadata")
		}
		w.put(at, "n1", ibReceived, sec*32, "device", "mlx5_0", "port", "1")
		w.put(at, "n1", "node_infiniband_state_id", 4, "device", "mlx5_0", "port", "1")
		w.put(at, "n1", "node_infiniband_state_id", 3, "device", "mlx5_0", "port", "2")
		w.put(at, "n1", "reckon_infiniband_port_info", 1, "device", "mlx5_0", "port", "1", "link_layer", "InfiniBand")
		w.put(at, "n1", "reckon_infiniband_saturated", 1, "device", "mlx5_0", "port", "1", "counter", "symbol_error")
		w.put(at, "n1", "node_infiniband_rate_bytes_per_second", 25e9, "device", "mlx5_0", "port", "1")
		w.put(at, "n1", "reckon_slingshot_link_up", 0, "device", "cxi0")
		for _, node := range []string{"n1", "n3"} {
			w.put(at, node, figure.NodeCPU, sec, "cpu", "0", "mode", "user")
			w.put(at, node, memoryMoved, 1e12+sec*3e9, "socket", "0", "direction", "read")
			w.put(at, node, cacheMoved, sec*2e9, "socket", "0", "memory", "local")
			w.put(at, node, cacheMoved, sec*1e9, "socket", "0", "memory", "remote")
			w.put(at, node, cacheOccupied, 7e6, "socket", "0")
		}
		w.put(at, "n1", memoryMoved, sec*1e9, "socket", "0", "direction", "write") // n3 does not count writes
		w.put(at, "n1", memoryMoved, sec*2e9, "socket", "10", "direction", "read")
		w.put(at, "n1", memoryMoved, sec*2e9, "socket", "10", "direction", "write")
	}
	d, err := New(w.s, Options{}).Devices(t.Context(), "", "n1", now)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Disks) != 1 || len(d.Mounts) != 2 || len(d.Links) != 3 {
		t.Fatalf("%+v", d)
	}
	disk, fuse, mount, cxi, ib, second := d.Disks[0], d.Mounts[0], d.Mounts[1], d.Links[0], d.Links[1], d.Links[2]
	near(t, "busy", disk.Busy, 0.5)
	near(t, "waiting", disk.Waiting, 3)
	near(t, "threads of two jobs", disk.Threads, 2.5)
	near(t, "read", disk.ReadBytes, 1000)
	near(t, "a read", disk.ReadSeconds, 0.02)
	if disk.WriteSeconds != nil || disk.WriteBytes != nil {
		t.Errorf("nothing was written: %+v", disk)
	}
	near(t, "read by two jobs", fuse.ReadBytes, 400)
	near(t, "metadata of two jobs", fuse.MetadataRate, 40)
	near(t, "a metadata request of theirs", fuse.MetadataSeconds, 0.01)
	near(t, "operations", mount.Operations, 300)
	near(t, "metadata", mount.MetadataRate, 100)
	near(t, "a metadata operation", mount.MetadataSeconds, 0.05)
	near(t, "written", mount.WriteBytes, 64)
	near(t, "sent again", mount.Retransmissions, 2)
	if mount.ReadSeconds != nil || mount.ReadBytes != nil {
		t.Errorf("times of reads are not known: %+v", mount)
	}
	near(t, "received", ib.ReceiveBytes, 32)
	near(t, "rate", ib.Rate, 25e9)
	if !*ib.Up || *second.Up || *cxi.Up || ib.Layer != "InfiniBand" || cxi.Layer != "Slingshot" || len(ib.Saturated) != 1 {
		t.Errorf("%+v", d.Links)
	}
	if len(d.Sockets) != 2 || d.Sockets[1].Socket != "10" || d.Sockets[1].LocalBytes != nil || d.Sockets[1].CacheBytes != nil {
		t.Fatalf("%+v", d.Sockets)
	}
	near(t, "read from memory", d.Sockets[0].ReadBytes, 3e9)
	near(t, "written to memory", d.Sockets[0].WriteBytes, 1e9)
	near(t, "own memory", d.Sockets[0].LocalBytes, 2e9)
	near(t, "memory of others", d.Sockets[0].RemoteBytes, 1e9)
	near(t, "cache", d.Sockets[0].CacheBytes, 7e6)
	nodes, err := New(w.s, Options{}).Nodes(t.Context(), now)
	if err != nil || len(nodes) != 3 {
		t.Fatalf("%+v, %v", nodes, err)
	}
	near(t, "both directions of all sockets", nodes[0].MemoryTraffic, 8e9)
	near(t, "of caches, where a direction of the controllers is missing", nodes[2].MemoryTraffic, 3e9)
	if nodes[1].MemoryTraffic != nil {
		t.Errorf("%v on a node that counts none", *nodes[1].MemoryTraffic)
	}
	waits, err := New(w.s, Options{}).DiskWaits(t.Context(), Selection{ID: "slurm/2", From: now.Add(-time.Hour), To: now})
	if err != nil || len(waits) != 2 || waits[1].Device != "sda" || waits[1].Seconds != 240 {
		t.Errorf("a job waited %+v, %v", waits, err)
	}
	if d, err = New(w.s, Options{}).Devices(t.Context(), "", "n1", now.Add(time.Hour)); err != nil || len(d.Disks)+len(d.Mounts)+len(d.Links) != 0 {
		t.Errorf("an hour later: %+v, %v", d, err)
	}
}
