package podstorage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"reckon/internal/sysfs"
)

// podTree is the location of the pods' data on a machine.
type podTree struct {
	root, folder string
}

func newTree(root, folder string) podTree {
	return podTree{filepath.Clean("/" + root), filepath.Clean("/" + folder)}
}

// mount is a volume with its own file system.
type mount struct {
	plugin, name string
	fstype       string
	path         string // here
}

// kubeletVolumes are plugins with files that the kubelet writes for the pod. They hold no data of the pod.
var kubeletVolumes = map[string]bool{"projected": true, "secret": true, "configmap": true, "downward-api": true}

// mounts returns the volumes of each pod, by UID, that have their own file system.
func (t *podTree) mounts() (map[string][]mount, error) {
	text, err := os.ReadFile(filepath.Join(t.root, "proc/1/mountinfo"))
	if err != nil {
		if text, err = os.ReadFile(filepath.Join(t.root, "proc/self/mountinfo")); err != nil {
			return nil, fmt.Errorf("read the mounts of volumes: %w", err)
		}
	}
	return t.parseMounts(text), nil
}

// parseMounts reads mountinfo (proc_pid_mountinfo(5)).
func (t *podTree) parseMounts(text []byte) map[string][]mount {
	out := map[string][]mount{}
	prefix := t.folder + "/pods/"
	for line := range bytes.Lines(text) {
		if !bytes.Contains(line, []byte("/volumes/")) {
			continue
		}
		point, fstype, _, ok := mountFields(line)
		rest, below := strings.CutPrefix(point, prefix)
		if !ok || !below {
			continue
		}
		f := strings.Split(rest, "/") // UID/volumes/PLUGIN/NAME[/mount]
		if len(f) < 4 || len(f) > 5 || f[1] != "volumes" || len(f) == 5 && f[4] != "mount" {
			continue
		}
		if m := (mount{pluginName(f[2]), f[3], fstype, filepath.Join(t.root, point)}); !kubeletVolumes[m.plugin] {
			out[f[0]] = append(out[f[0]], m)
		}
	}
	return out
}

// pluginName returns csi for kubernetes.io~csi.
func pluginName(folder string) string {
	_, name, ok := strings.Cut(folder, "~")
	if !ok {
		return folder
	}
	return name
}

// mountFields returns the mount point, the type and the options of the file system of a line of mountinfo.
func mountFields(line []byte) (point, fstype, options string, ok bool) {
	before, after, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" - "))
	f, g := bytes.Fields(before), bytes.Fields(after)
	if !ok || len(f) < 6 || len(g) < 3 {
		return "", "", "", false
	}
	return sysfs.Unescape(string(f[4])), string(g[0]), string(g[2]), true
}

// walkTarget is a directory to measure.
type walkTarget struct {
	Amount
	path string
}

// podFolders returns the directories to measure for a pod: its emptyDir volumes on the node's disk, and the logs of its
// containers. own lists the volumes, as PLUGIN/NAME, that have their own file system and are therefore skipped.
func (t *podTree) podFolders(p *Pod, mounted map[string]bool) (list []walkTarget) {
	const plugin = "empty-dir" // the others of this kind are made and counted elsewhere
	dir := filepath.Join(t.root, t.folder, "pods", p.UID, "volumes", "kubernetes.io~"+plugin)
	for _, name := range folderNames(dir) {
		if !mounted[plugin+"/"+name] {
			list = append(list, walkTarget{Amount{Kind: Volume, Name: name, Plugin: plugin}, filepath.Join(dir, name)})
		}
	}
	dir = filepath.Join(t.root, "var/log/pods", p.Namespace+"_"+p.Name+"_"+p.UID)
	for _, name := range folderNames(dir) {
		list = append(list, walkTarget{Amount{Kind: Logs, Name: name}, filepath.Join(dir, name)})
	}
	return list
}

// folderNames returns the names in a folder, none if it is not there.
func folderNames(dir string) (names []string) {
	list, _ := os.ReadDir(dir) // a pod without such volumes has no such folder
	for _, e := range list {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// layerIDs caches the writable layer of each container by its id, because it never changes. A layer is accepted after two
// rounds have found the same one. The first process of a container starts in the root of the machine, so that a single
// reading may show the wrong layer.
type layerIDs struct{ now, before map[string]layer }

type layer struct {
	dir  string
	sure bool
}

// beginRound starts a round and drops layers not requested in the previous one.
func (l *layerIDs) beginRound() { l.now, l.before = make(map[string]layer, len(l.now)), l.now }

// writableLayers returns the writable layers of the containers that run.
func (t *podTree) writableLayers(p *Pod, known *layerIDs) (list []walkTarget) {
	for _, c := range p.Containers {
		upper := known.before[c.ID]
		if !upper.sure || c.ID == "" {
			text, err := os.ReadFile(filepath.Join(t.root, "proc", strconv.Itoa(int(c.PID)), "mountinfo"))
			if err != nil {
				continue // it ended a moment ago
			}
			dir := upperDir(text)
			upper = layer{dir, dir != "" && dir == upper.dir}
		}
		known.now[c.ID] = upper
		if upper.dir != "" {
			list = append(list, walkTarget{Amount{Kind: WritableLayer, Name: c.Name}, filepath.Join(t.root, upper.dir)})
		}
	}
	return list
}

// upperDir returns the directory of the writable layer of a container's root. It returns "" if the root is no overlay or is read-only.
func upperDir(mountinfo []byte) string {
	for line := range bytes.Lines(mountinfo) {
		if !bytes.Contains(line, []byte(" / ")) {
			continue
		}
		point, fstype, options, ok := mountFields(line)
		if !ok || point != "/" {
			continue
		}
		if fstype != "overlay" {
			return ""
		}
		for option := range strings.SplitSeq(options, ",") {
			if dir, ok := strings.CutPrefix(option, "upperdir="); ok {
				return sysfs.Unescape(dir)
			}
		}
		return ""
	}
	return ""
}
