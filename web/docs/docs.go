// Package docs serves the guides as pages: a list, each document, a search, and their pictures. They are rendered on demand from the
// embedded Markdown, without raw HTML, so that they need no network and comply with the strict policy of the server's pages.
package docs

import (
	"bytes"
	"html/template"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"reckon/doc"
)

// Path is the address of the list; documents are below it.
const Path = "/docs"

// maxFound is the maximum number of lines that a search shows.
const maxFound = 200

var markdown = sync.OnceValue(func() goldmark.Markdown {
	return goldmark.New(goldmark.WithExtensions(
		// alignment by attribute: the policy forbids styles in elements
		extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))),
		goldmark.WithParserOptions(parser.WithAutoHeadingID(), parser.WithASTTransformers(util.Prioritized(linkRewriter{}, 100))))
})

// linkRewriter redirects links between documents to their pages, and removes those to files that only the repository has.
type linkRewriter struct{}

// Transform implements parser.ASTTransformer.
func (linkRewriter) Transform(node *ast.Document, _ text.Reader, _ parser.Context) {
	var gone []*ast.Link
	_ = ast.Walk(node, func(n ast.Node, isEntering bool) (ast.WalkStatus, error) { // the function returns no error
		if !isEntering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			if to, ok := linkTarget(string(n.Destination)); ok {
				n.Destination = []byte(to)
			} else {
				gone = append(gone, n)
			}
		case *ast.Image:
			n.Destination = []byte(Path + "/images/" + path.Base(string(n.Destination)))
		}
		return ast.WalkContinue, nil
	})
	for _, n := range gone {
		for c := n.FirstChild(); c != nil; c = n.FirstChild() {
			n.Parent().InsertBefore(n.Parent(), n, c)
		}
		n.Parent().RemoveChild(n.Parent(), n)
	}
}

// linkTarget returns the address of the page that a link in a document leads to. It returns false for a file that only
// the repository has.
func linkTarget(to string) (string, bool) {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "#") || strings.HasPrefix(to, "mailto:") {
		return to, true
	}
	file, anchor, has := strings.Cut(to, "#")
	name, isMarkdown := strings.CutSuffix(path.Base(file), ".md")
	if _, ok := doc.Text(name); !ok || !isMarkdown || strings.Contains(file, "decisions/") {
		return "", false
	}
	if has {
		anchor = "#" + anchor
	}
	return Path + "/" + name + anchor, true
}

var page = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}} · reckon</title><link rel="stylesheet" href="/static/landing.css"></head>
<body class="docs"><header><a href="/">reckon</a> · <a href="` + Path + `">Guides</a>
<form action="` + Path + `" role="search"><input type="search" name="q" value="{{.Query}}" aria-label="Search the guides"> <button>Search</button></form></header>
{{with .Sections}}<nav aria-label="Sections">{{range $i, $s := .}}{{if $i}} · {{end}}<a href="#{{$s.ID}}">{{$s.Title}}</a>{{end}}</nav>{{end}}
<main>{{if .Body}}{{.Body}}{{else}}<h1>{{.Title}}</h1>
{{if .Query}}<p>{{len .Found}} lines have all of these words{{if .Cut}}, at least{{end}}.</p>
<ul>{{range .Found}}<li><a href="` + Path + `/{{.Topic.Name}}">{{.Topic.Title}}</a>{{if ne .Heading .Topic.Title}}, {{.Heading}}{{end}}: {{.Line}}</li>{{end}}</ul>
{{else}}<ul>{{range .Topics}}<li><a href="` + Path + `/{{.Name}}">{{.Title}}</a></li>{{end}}</ul>{{end}}{{end}}</main></body></html>
`))

type content struct {
	Title, Query string
	Body         template.HTML
	Sections     []section
	Topics       []doc.Topic
	Found        []doc.Match
	Cut          bool // there may be more
}

// section is a heading of the second level.
type section struct{ ID, Title string }

// listSections lists the sections of a document; none if there are fewer than three.
func listSections(document ast.Node, source []byte) (out []section) {
	for n := document.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok && h.Level == 2 {
			id, _ := h.AttributeString("id")
			name, _ := id.([]byte)
			out = append(out, section{string(name), strings.ReplaceAll(string(h.Lines().Value(source)), "`", "")})
		}
	}
	if len(out) < 3 {
		return nil
	}
	return out
}

// Handler serves Path and everything below it.
func Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, func(w http.ResponseWriter, r *http.Request) {
		c := content{Title: "Guides", Topics: doc.Topics(), Query: r.FormValue("q")}
		if c.Query != "" {
			c.Title, c.Found = "Search", doc.Find(c.Query, maxFound)
			c.Cut = len(c.Found) == maxFound
		}
		writePage(w, http.StatusOK, c)
	})
	mux.HandleFunc("GET "+Path+"/{topic}", func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimSuffix(r.PathValue("topic"), ".md")
		markup, ok := doc.Text(name)
		if !ok {
			writePage(w, http.StatusNotFound, content{Title: "There is no guide " + name, Topics: doc.Topics()})
			return
		}
		source := []byte(markup)
		document := markdown().Parser().Parse(text.NewReader(source))
		var b bytes.Buffer
		if err := markdown().Renderer().Render(&b, source, document); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		writePage(w, http.StatusOK, content{Title: doc.Title(markup), Body: template.HTML(b.String()), // ours, and without raw HTML
			Sections: listSections(document, source)})
	})
	mux.HandleFunc("GET "+Path+"/images/{name}", func(w http.ResponseWriter, r *http.Request) {
		raw, ok := doc.Image(r.PathValue("name"))
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", map[string]string{".png": "image/png", ".svg": "image/svg+xml"}[path.Ext(r.PathValue("name"))])
		_, _ = w.Write(raw) // the client may be gone
	})
	return mux
}

func writePage(w http.ResponseWriter, status int, c content) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(status)
	_ = page.Execute(w, c) // the client may be gone
}
