package undocumented

import _ "sigs.k8s.io/yaml"
