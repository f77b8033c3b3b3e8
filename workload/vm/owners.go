package vm

import (
	"bufio"
	"cmp"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"reckon/internal/cgpath"
)

// projectOwners finds the projects that managers run virtual machines for.
//
//	/run/libvirt/qemu/NAME.xml, /etc/libvirt/qemu/NAME.xml   https://libvirt.org/formatdomain.html
//	    <metadata><nova:project>NAME</nova:project>          of OpenStack
//	    <description>... project=NAME ...</description>       of all others
//	/etc/pve/user.cfg                                        pool:NAME:COMMENT:VMID,VMID:STORAGE:
//
// It is not safe for concurrent use.
type projectOwners struct{ root string }

// maxDefinitionSize is the maximum number of bytes read from a file.
const maxDefinitionSize = 4 << 20

// libvirtProject returns the project of a machine. It returns "libvirt" if the definition names none or cannot be read.
func (o projectOwners) libvirtProject(name string) string {
	if name == "" || strings.ContainsAny(name, "/\x00") || name[0] == '.' {
		return libvirtOwner
	}
	for _, dir := range []string{"run/libvirt/qemu", "etc/libvirt/qemu", "run/libvirt/ch", "etc/libvirt/ch"} {
		f, err := o.openFile(filepath.Join(dir, name+".xml"))
		if err != nil {
			continue
		}
		p := parseProject(io.LimitReader(f, maxDefinitionSize))
		_ = f.Close()
		if p != "" {
			return p
		}
	}
	return libvirtOwner
}

func (o projectOwners) openFile(name string) (*os.File, error) {
	return os.Open(filepath.Join(cmp.Or(o.root, "/"), name))
}

// parseProject reads the project from the definition of a domain; "" if there is none.
func parseProject(r io.Reader) string {
	d := xml.NewDecoder(r)
	text := "" // of the last element that began
	var described string
	for {
		t, err := d.Token()
		if err != nil { // the end of the text, or invalid XML
			return cgpath.Clean(described)
		}
		switch t := t.(type) {
		case xml.StartElement:
			text = ""
		case xml.CharData:
			text += string(t)
		case xml.EndElement:
			switch {
			case t.Name.Local == "project" && strings.Contains(t.Name.Space, "openstack.org"):
				if p := strings.TrimSpace(text); p != "" {
					return cgpath.Clean(p)
				}
			case t.Name.Local == "description" && described == "":
				described = projectName(text)
			}
			text = ""
		}
	}
}

// projectName finds "project=NAME" or "project: NAME" in a text.
func projectName(text string) string {
	words := strings.Fields(strings.NewReplacer("=", " = ", ":", " : ", ",", " ", ";", " ").Replace(text))
	for i, w := range words {
		if strings.EqualFold(w, "project") && i+2 < len(words) && (words[i+1] == "=" || words[i+1] == ":") {
			return words[i+2]
		}
	}
	return ""
}

// proxmoxPool returns the pool of a machine, or "proxmox" if it is in none.
func (o projectOwners) proxmoxPool(id string) string {
	f, err := o.openFile("etc/pve/user.cfg")
	if err != nil {
		return proxmoxOwner
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, maxDefinitionSize))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) >= 4 && fields[0] == "pool" && fields[1] != "" && slices.Contains(strings.Split(fields[3], ","), id) {
			return cgpath.Clean(fields[1])
		}
	}
	return proxmoxOwner
}
