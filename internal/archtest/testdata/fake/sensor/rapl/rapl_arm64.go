package rapl

import _ "reckon/store"
