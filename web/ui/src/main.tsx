import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { App } from "./app";
import { start } from "./lib/state";

render(<App />, document.getElementById("app")!);
start();
