"use strict";
(async () => {
  const { looks, charts } = JSON.parse(document.getElementById("data").textContent);
  const hidden = {}; // group -> agents that its legend hides
  const MOST_BANDS = 8; // more would be a fog; hovering tells the intervals all the same
  const isTouch = matchMedia("(pointer: coarse)").matches;

  async function loadLibrary() {
    const packed = atob(document.getElementById("library").textContent);
    const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  }

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const opened = (hex, alpha) => {
    const digits = hex.length === 4 ? [...hex.slice(1)].map((d) => d + d) : hex.slice(1).match(/../g);
    return `rgba(${digits.map((d) => parseInt(d, 16)).join(",")},${alpha})`;
  };
  const entities = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  const literal = (text) => text.replace(/[&<>"]/g, (sign) => entities[sign]); // plotly reads tags
  const broken = (text, width) =>
    (text.match(new RegExp(`.{1,${width}}(?=\\s|$)|.{1,${width}}`, "gu")) ?? []).map(literal).join("<br>");

  function makeTraces(chart, state, group) {
    const lines = chart.choices[state.choice].filter((line) => !hidden[group]?.has(line.agent));
    const hasBands = lines.filter((line) => line.half.length).length <= MOST_BANDS;
    return lines.flatMap((line, i) => {
      const look = looks[line.agent] ?? { dash: i % 2 ? "2,8" : "2,3", symbol: "" };
      const ink = line.agent < 0 ? colour("--faint") : colour(`--c${look.colour}`);
      const x = chart.positions[line.x];
      const least = Math.min(...line.y.filter((value) => value > 0));
      const floor = (value) => (state.log.y && !(value > least / 2) ? least / 2 : value);
      const below = line.y.map((value, j) => floor(value - line.half[j]));
      const above = line.y.map((value, j) => floor(value + line.half[j]));
      const band = {
        x: [...x, ...[...x].reverse()], y: [...above, ...below.reverse()], fill: "toself",
        fillcolor: opened(ink, 0.18), line: { width: 0 }, mode: "lines", hoverinfo: "skip",
      };
      const curve = {
        x, y: line.y, name: broken(line.name, 40), mode: look.symbol ? "lines+markers" : "lines",
        line: { color: ink, width: 2, dash: look.dash ? look.dash.replace(/(\d+)/g, "$1px") : "solid" },
        marker: { symbol: look.symbol || "circle", size: 8, color: ink, maxdisplayed: 8 },
        customdata: line.half.length ? line.half.map((value) => ` ± ${+value.toPrecision(2)}`) : x.map(() => ""),
        hovertemplate: "%{fullData.name}<br>%{x}: %{y:.4g}%{customdata}<extra></extra>",
      };
      return hasBands && line.half.length ? [band, curve] : [curve];
    });
  }

  function makeLayout(chart, state) {
    const front = colour("--front");
    const axis = (title, isLog) => ({
      title: { text: broken(title, 44), standoff: 8 }, type: isLog ? "log" : "linear",
      automargin: true, gridcolor: colour("--rule"), zerolinecolor: colour("--faint"), color: front,
      exponentformat: "power", ...(isLog ? { dtick: 1 } : {}),
    });
    return {
      paper_bgcolor: colour("--back"), plot_bgcolor: colour("--back"), font: { color: front, size: 12 },
      xaxis: axis(chart.x_title, state.log.x), yaxis: axis(chart.y_title, state.log.y),
      margin: { l: 10, r: 12, t: 12, b: 10 }, showlegend: false, hovermode: "closest",
      dragmode: isTouch ? false : "zoom", // so that a finger scrolls the page
      hoverlabel: { bgcolor: colour("--mark"), bordercolor: front, font: { color: front }, align: "left" },
      uirevision: `${state.log.x}${state.log.y}`,
    };
  }

  const views = [...document.querySelectorAll("figure[data-chart]")].map((figure) => {
    const chart = charts[figure.dataset.chart];
    return {
      figure, chart, group: figure.dataset.chart.split("-")[0], isSeen: false,
      plot: figure.querySelector(".plot"),
      state: {
        choice: Object.keys(chart.choices)[0],
        log: { x: chart.log.includes("x"), y: chart.log.includes("y") },
      },
    };
  });

  function draw({ chart, state, plot, group }) {
    const config = {
      responsive: true, displaylogo: false, displayModeBar: isTouch ? false : "hover",
      modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]], // none that shares online
    };
    Plotly.react(plot, makeTraces(chart, state, group), makeLayout(chart, state), config);
  }
  const redraw = (group) =>
    views.filter((view) => view.isSeen && (!group || view.group === group)).forEach(draw);

  function showAgent(button, isShown) {
    button.setAttribute("aria-pressed", isShown);
    const group = button.parentElement.dataset.group;
    hidden[group] ??= new Set();
    hidden[group][isShown ? "delete" : "add"](Number(button.dataset.agent));
  }

  document.querySelectorAll(".legend").forEach((legend) => {
    legend.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      const isPressed = button.getAttribute("aria-pressed") === "true";
      if (button.dataset.agent) showAgent(button, !isPressed);
      else legend.querySelectorAll("[data-agent]").forEach((each) => showAgent(each, button.dataset.all === "true"));
      redraw(legend.dataset.group);
    });
  });

  views.forEach((view) => {
    view.figure.querySelectorAll("[data-log]").forEach((button) => {
      button.addEventListener("click", () => {
        const isLog = (view.state.log[button.dataset.log] = !view.state.log[button.dataset.log]);
        button.setAttribute("aria-pressed", isLog);
        draw(view);
      });
    });
    view.figure.querySelector("[data-choice]")?.addEventListener("change", (event) => {
      view.state.choice = event.target.value;
      draw(view);
    });
  });

  await loadLibrary();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((each) => each.isIntersecting)) {
      const view = views.find((each) => each.plot === entry.target);
      watcher.unobserve(view.plot);
      view.isSeen = true;
      draw(view);
    }
  }, { rootMargin: "400px" });
  views.forEach((view) => watcher.observe(view.plot));
})();
