package own

import "reckon/graph"

// Namespace is the namespace of reckon's own terms, in addition to SAREF, SOSA and QUDT.
const Namespace = "urn:reckon:ns#"

// Namespaces of other vocabularies.
const (
	saref   = "https://saref.etsi.org/core/"
	sosa    = "http://www.w3.org/ns/sosa/"
	qudt    = "http://qudt.org/schema/qudt/"
	unit    = "http://qudt.org/vocab/unit/"
	dcterms = "http://purl.org/dc/terms/"
)

// Prefixes returns the prefixes used in output.
func Prefixes() []graph.Prefix {
	return []graph.Prefix{
		{Name: "rk", IRI: Namespace}, {Name: "saref", IRI: saref}, {Name: "sosa", IRI: sosa}, {Name: "qudt", IRI: qudt},
		{Name: "unit", IRI: unit},
		{Name: "dcterms", IRI: dcterms}, {Name: "rdf", IRI: graph.RDF}, {Name: "rdfs", IRI: graph.RDFS}, {Name: "xsd", IRI: graph.XSD},
	}
}

// Context returns the JSON-LD context of the output. Every prefix ends in a delimiter, so that every processor expands it.
func Context() map[string]any {
	out := map[string]any{}
	for _, p := range Prefixes() {
		out[p.Name] = p.IRI
	}
	return out
}

// ContextIRI can be used as @context in documents: it is built in, and the server serves it too.
const ContextIRI = "urn:reckon:context"

// vocabularyTerm is a class or property of our vocabulary. comment is its definition, and parent is the class or
// property of another vocabulary that it specializes.
type vocabularyTerm struct {
	name, parent, comment string
	property              bool
	required              []string // properties that every instance of the class has
}

func vocabularyTerms() []vocabularyTerm {
	return []vocabularyTerm{
		{name: "Workload", parent: sosa + "FeatureOfInterest",
			comment: "Work that is recognised as one piece: a job, a deployment, a service.", required: []string{"name", "kind"}},
		{name: "Pod", parent: Namespace + "Workload", comment: "A pod of Kubernetes.", required: []string{"name", "namespace"}},
		{name: "Container", parent: sosa + "FeatureOfInterest", comment: "A container of a pod.", required: []string{"name"}},
		{name: "Node", parent: sosa + "Platform", comment: "A machine.", required: []string{"name"}},
		{name: "Site", parent: sosa + "Platform",
			comment:  "A set of nodes seen as one: a cluster, a data centre at the edge, a GNode of GLACIATION.",
			required: []string{"name"}},
		{name: "Telemetry", comment: "Where the figures and the logs of something are."},
		{name: "WorkloadTelemetry", parent: Namespace + "Telemetry", comment: "Where the figures and the logs of a workload are."},
		{name: "Data", comment: "Something that can be read: a data set, a volume, time series, logs.", required: []string{"dataType"}},
		{name: "DataSource", comment: "A store that answers queries.", required: []string{"sourceType"}},
		{name: "Dashboard", comment: "A page that shows data.", required: []string{"url"}},
		{name: "Series", parent: sosa + "ObservableProperty", comment: "One figure, its unit and the query that gives it.",
			required: []string{"metricName", "query"}},
		{name: "Amount", parent: qudt + "QuantityValue", comment: "So much of a resource.", required: []string{"resource"}},
		{name: "name", parent: graph.RDFS + "label", comment: "Name without namespace.", property: true},
		{name: "kind", comment: "Kind of a workload, as its system writes it.", property: true},
		{name: "namespace", comment: "Namespace of Kubernetes.", property: true},
		{name: "uid", parent: dcterms + "identifier", comment: "Distinguishes it from others of the same name.", property: true},
		{name: "workload", comment: "The workload as reckon names it: the value of the label workload of its series.", property: true},
		{name: "owner", comment: "Who answers for it: a user or a namespace.", property: true},
		{name: "state", comment: "State, as its system writes it.", property: true},
		{name: "startTime", comment: "When it began.", property: true},
		{name: "endTime", comment: "When it ended.", property: true},
		{name: "readySince", comment: "Since when a node has its state.", property: true},
		{name: "scheduler", comment: "What places it.", property: true},
		{name: "request", comment: "What it requests.", property: true},
		{name: "limit", comment: "What it may use at most.", property: true},
		{name: "allocatable", comment: "What a node has for workloads.", property: true},
		{name: "resource", comment: "CPU, RAM, Storage, GPU, Network or Energy.", property: true},
		{name: "energyIndex", comment: "Rank of a node by energy, as annotated; it has no unit.", property: true},
		{name: "runsOn", parent: sosa + "isHostedBy", comment: "The node where it runs.", property: true},
		{name: "partOf", parent: dcterms + "isPartOf", comment: "What it belongs to.", property: true},
		{name: "hasNode", parent: sosa + "hosts", comment: "A node of a site.", property: true},
		{name: "reads", comment: "Data that it depends on.", property: true},
		{name: "storedOn", comment: "A node that has the data.", property: true},
		{name: "telemetry", comment: "Where its figures and logs are.", property: true},
		{name: "hasMetrics", comment: "Its time series.", property: true},
		{name: "hasLogs", comment: "Its logs.", property: true},
		{name: "dataType", comment: "timeseries, prometheus, logs, loki, or the kind of a volume.", property: true},
		{name: "source", parent: dcterms + "source", comment: "The store that has it.", property: true},
		{name: "sourceType", comment: "Kind of a store: prometheus, loki, kubernetes, journald.", property: true},
		{name: "url", comment: "Where it answers.", property: true},
		{name: "series", parent: saref + "hasProperty", comment: "One of its time series.", property: true},
		{name: "metricName", comment: "Name of the metric.", property: true},
		{name: "metricType", comment: "counter or gauge.", property: true},
		{name: "query", comment: "The query that gives it: PromQL, or the log store's.", property: true},
		{
			name: "forecastQuery", comment: "The PromQL of the forecast of a series for one day ahead; reckon_forecast has other " +
				"horizons and the prediction interval too.", property: true},
		{name: "latestValue", parent: sosa + "hasSimpleResult",
			comment: "Latest value of a series, in its unit. Computed on request, never stored.", property: true},
		{name: "latestTime", parent: sosa + "resultTime", comment: "When a series had its latest value.", property: true},
		{name: "dashboard", comment: "A page that shows it.", property: true},
		{name: "dashboardType", comment: "What shows it: grafana or reckon.", property: true},
	}
}

// Ontology describes the terms, as RDF Schema.
func Ontology() (out []graph.Quad) {
	add := func(s, p string, o graph.Term) {
		out = append(out, graph.Quad{S: graph.Node(s), P: graph.Node(p), O: o})
	}
	for _, w := range vocabularyTerms() {
		iri, class, under := Namespace+w.name, graph.RDFS+"Class", graph.RDFS+"subClassOf"
		if w.property {
			class, under = graph.RDF+"Property", graph.RDFS+"subPropertyOf"
		}
		add(iri, graph.RDFType, graph.Node(class))
		add(iri, graph.RDFS+"comment", graph.Text(w.comment))
		if w.parent != "" {
			add(iri, under, graph.Node(w.parent))
		}
		for _, r := range w.required {
			add(iri, Namespace+"requires", graph.Node(Namespace+r))
		}
	}
	return out
}
