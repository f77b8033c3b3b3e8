module k8sbed/dns

go 1.26.0

require golang.org/x/net v0.61.0
