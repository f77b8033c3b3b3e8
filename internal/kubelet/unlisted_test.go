package kubelet

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// logsOf makes the folders and links that the kubelet makes for the logs of a container, as on a node of 1.34.
func logsOf(t *testing.T, root, namespace, pod, uid, container, id string, restarts int) {
	t.Helper()
	dir := filepath.Join(root, podLogs, namespace+"_"+pod+"_"+uid, container)
	links := filepath.Join(root, containerLogs)
	for _, d := range []string{dir, links} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if id != "" {
		if err := os.Symlink(filepath.Join(dir, strconv.Itoa(restarts)+".log"), filepath.Join(links, pod+"_"+namespace+"_"+container+"-"+id+".log")); err != nil {
			t.Fatal(err)
		}
	}
}

const owned = `{"metadata":{"uid":"l","name":"cart-6bd-lllll","namespace":"shop","labels":{"pod-template-hash":"6bd"},"ownerReferences":[{"kind":"ReplicaSet","name":"cart-6bd","uid":"r","controller":true}]}}`

// TestDeletedBeforeListed: a pod that was deleted before the kubelet was asked has the names of its folder, once an answer that was asked
// for after it was seen lacks it.
func TestDeletedBeforeListed(t *testing.T) {
	bubble(t, func(n *node, s *Cache, pass func(time.Duration)) {
		id := strings.Repeat("ab", 32)
		logsOf(t, s.unlisted.root, "shop", "cart-7fc-ggggg", "u1", "app", id, 0)
		logsOf(t, s.unlisted.root, "shop", "other", "u2", "app", "", 0)
		n.text = `{"items":[` + owned + `]}`
		if s.Pod("u1") != nil {
			t.Fatal("named before the kubelet was asked")
		}
		pass(time.Second)
		if s.Pod("u1") != nil {
			t.Error("named after one answer, which may have been under way")
		}
		pass(time.Second)
		p := s.Pod("u1")
		if p == nil {
			t.Fatal("no name")
		}
		if c := p.Container(id); !p.Unlisted || p.Namespace != "shop" || p.Name != "cart-7fc-ggggg" || p.OwnerName != "cart-7fc" ||
			p.Labels[templateHash] != "7fc" || c == nil || c.Name != "app" {
			t.Errorf("%+v", p)
		}
		if len(s.List()) != 1 {
			t.Errorf("listed: %v", s.List())
		}
		if s.Pod("u3") != nil {
			t.Error("a pod without a folder")
		}
	})
}

// TestDeletedWhileListedNothing: a kubelet that has just begun lists no pod, so that its answers are no proof.
func TestDeletedWhileListedNothing(t *testing.T) {
	bubble(t, func(n *node, s *Cache, pass func(time.Duration)) {
		n.text = `{"items":[{"metadata":{"uid":"s","name":"s","namespace":"n","annotations":{"kubernetes.io/config.hash":"s"}}}]}`
		logsOf(t, s.unlisted.root, "shop", "bare", "u1", "app", "", 0)
		for i := range maxTries + 1 {
			if p := s.Pod("u1"); p != nil && i < maxTries {
				t.Fatalf("named after %d answers", i)
			}
			pass(time.Second)
		}
		if p := s.Pod("u1"); p == nil || p.Name != "bare" || p.OwnerKind != "" {
			t.Errorf("%+v", p)
		}
	})
}

// TestListedNoMore: what an earlier answer had keeps its names for a while.
func TestListedNoMore(t *testing.T) {
	bubble(t, func(n *node, s *Cache, pass func(time.Duration)) {
		n.text = `{"items":[` + owned + `]}`
		s.Pod("l")
		pass(time.Second)
		if p := s.Pod("l"); p == nil || p.Unlisted {
			t.Fatalf("%+v", p)
		}
		n.text = listOf("a")
		pass(Interval)
		if p := s.Pod("l"); p == nil || !p.Unlisted || p.OwnerName != "cart-6bd" {
			t.Errorf("%+v", p)
		}
		pass((unlistedAnswers + 2) * Interval)
		if p := s.Pod("l"); p != nil {
			t.Errorf("kept for ever: %+v", p)
		}
	})
}

func TestInherit(t *testing.T) {
	listed := []*Pod{
		{Namespace: "shop", Name: "cart-6bd-lllll", Labels: map[string]string{templateHash: "6bd"}, OwnerKind: "ReplicaSet", OwnerName: "cart-6bd"},
		{Namespace: "shop", Name: "train-xxxxx", OwnerKind: "Job", OwnerName: "train", OwnerUID: "j"},
	}
	for name, want := range map[string]string{
		"cart-6bd-aaaaa": "cart-6bd", "cart-7fc-aaaaa": "cart-7fc", "cart-x-7fc-aaaaa": "", "cart-aaaaa": "", "train-yyyyy": "train", "db-0": "", "bare": "", "-aaaaa": "",
	} {
		p := &Pod{Namespace: "shop", Name: name}
		if p.copyOwner(listed); p.OwnerName != want {
			t.Errorf("%s: owner %q, want %q", name, p.OwnerName, want)
		}
		other := &Pod{Namespace: "else", Name: name}
		if other.copyOwner(listed); other.OwnerName != "" {
			t.Errorf("%s: owner %q of another namespace", name, other.OwnerName)
		}
	}
}

// TestStartedBeforeListed: a container has its name as soon as there is the link to its log, before the kubelet lists its id.
func TestStartedBeforeListed(t *testing.T) {
	const pod = `{"items":[{"metadata":{"uid":"u","name":"cart","namespace":"shop"},"spec":{"containers":[{"name":"app"},{"name":"app-2"}]},"status":{"containerStatuses":[
		{"name":"app","restartCount":1,%s}]}}]}`
	first, second := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	bubble(t, func(n *node, s *Cache, pass func(time.Duration)) {
		n.text = strings.Replace(pod, "%s", `"state":{"waiting":{"reason":"ContainerCreating"}}`, 1)
		s.Pod("u")
		pass(time.Second)
		list := s.List()
		if p := s.Pod("u"); p == nil || p.Container(first) != nil {
			t.Fatalf("%+v", p)
		}
		logsOf(t, s.unlisted.root, "shop", "cart", "u", "app", first, 1)
		logsOf(t, s.unlisted.root, "shop", "cart-app", "other", "app", second, 0)
		pass(maxLinksAge - 1)
		if s.Pod("u").Container(first) != nil {
			t.Error("the links are read more often than they are to be")
		}
		pass(1)
		c := s.Pod("u").Container(first)
		if c == nil || c.Name != "app" || !c.Running || c.Waiting != "" || s.Pod("u").Container(second) != nil {
			t.Fatalf("%+v", c)
		}
		if list[0].Container(first) != nil || s.List()[0].Container(first) != c {
			t.Error("the list that somebody holds was changed, or that of now was not")
		}
		// Begun again: the link of the one before is still there.
		n.text = strings.Replace(pod, "%s", `"containerID":"containerd://`+first+`","state":{"terminated":{"exitCode":3,"containerID":"containerd://`+first+`"}}`, 1)
		pass(Interval)
		logsOf(t, s.unlisted.root, "shop", "cart", "u", "app", strings.Repeat("ef", 32), 0) // and of the one before that
		pass(maxLinksAge)
		if c := s.Pod("u").Container(first); c.Running {
			t.Errorf("an older one is taken for a new one: %+v", c)
		}
		logsOf(t, s.unlisted.root, "shop", "cart", "u", "app", second, 2)
		pass(maxLinksAge)
		if c := s.Pod("u").Container(second); c == nil || c.Previous != first || !c.Running || c.Ended == nil {
			t.Errorf("%+v", c)
		}
	})
}
