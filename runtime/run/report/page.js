// SPDX-License-Identifier: Apache-2.0
'use strict';
(function () {
    const data = JSON.parse(document.getElementById('data').textContent);
    // Of a chart, which has the size of its viewBox (chart.c): width, height, and room for the axes.
    const W = 720, H = 260, L = 76, R = 14, T = 10, B = 36;
    const names = Array.from(document.querySelectorAll('h2[data-run]'), h => h.textContent);
    let axis = 'step';

    // Index of the first element that is not below x.
    function find(list, x) {
        let from = 0, to = list.length;
        while (from < to) {
            const middle = (from + to) >> 1;
            if (list[middle] < x) from = middle + 1; else to = middle;
        }
        return from;
    }

    function interpolate(xs, ys, x) {
        const i = Math.min(Math.max(find(xs, x), 1), xs.length - 1);
        if (xs.length < 2) return ys.length ? ys[0] : x;
        if (ys[i] === null || ys[i - 1] === null) return NaN;
        const part = xs[i] > xs[i - 1] ? (x - xs[i - 1]) / (xs[i] - xs[i - 1]) : 0;
        return ys[i - 1] + Math.min(Math.max(part, 0), 1) * (ys[i] - ys[i - 1]);
    }

    // Where the points of a series are on the chosen axis.
    function places(s) {
        s.at = s.at || {step: s.x};
        if (!s.at[axis]) {
            const run = data.runs[s.run];
            s.at[axis] = axis === 'time' && s.t ? s.t : s.x.map(x => interpolate(run.step, run[axis], x));
        }
        return s.at[axis];
    }

    function tickStep(low, high, wanted) {
        const raw = (high - low) / wanted, power = Math.pow(10, Math.floor(Math.log10(raw))), m = raw / power;
        return power * (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10);
    }

    // They are counted: adding a step to a number above 2^53 may leave it as it is.
    function ticks(low, high, step) {
        const first = Math.ceil(low / step), count = Math.floor(high / step) - first + 1;
        return Array.from({length: count >= 1 ? Math.min(count, 20) : 0}, (_, i) => (first + i) * step);
    }

    function number(v) {
        if (!isFinite(v)) return '\u2013';
        const size = Math.abs(v);
        for (const [least, unit, suffix] of [[1e12, 1e12, 'T'], [1e9, 1e9, 'G'], [1e6, 1e6, 'M'], [1e4, 1e3, 'k']])
            if (size >= least) return Number((v / unit).toPrecision(4)) + suffix;
        return String(Number(size < 1e-12 ? 0 : v.toPrecision(size < 1e-3 ? 3 : 4)));
    }

    function duration(s) {
        for (const [limit, unit, name] of [[120, 1, ' s'], [7200, 60, ' min'], [172800, 3600, ' h'], [Infinity, 86400, ' d']])
            if (s < limit) return Number((s / unit).toPrecision(3)) + name;
        return '';
    }

    function timeStep(span) {
        const steps = [0.01, 0.1, 1, 5, 15, 60, 300, 900, 3600, 7200, 21600, 43200, 86400, 172800, 604800, 2592000];
        return steps.find(s => span / s <= 7) || tickStep(0, span, 6);
    }

    const onAxis = v => axis === 'time' ? duration(v) : number(v);

    function measure(c) {
        let x0 = Infinity, x1 = -Infinity, y0 = Infinity, y1 = -Infinity;
        for (const s of c.series) {
            const at = places(s);
            for (let i = 0; i < s.y.length; i++) {
                if (isNaN(at[i]) || (c.log && s.y[i] <= 0)) continue;
                x0 = Math.min(x0, at[i]); x1 = Math.max(x1, at[i]);
                y0 = Math.min(y0, s.y[i]); y1 = Math.max(y1, s.y[i]);
            }
        }
        if (!(x1 >= x0)) return null;
        if (x1 === x0) x1 = x0 + Math.max(1, Math.abs(x0) * 1e-12);
        if (c.log) { y0 = Math.log10(y0); y1 = Math.log10(y1); }
        const margin = y1 > y0 ? (y1 - y0) * 0.04 : c.log ? 0.5 : Math.max(Math.abs(y1) * 0.05, 1e-9);
        y0 = !c.log && y0 >= 0 && y1 > y0 && y0 < margin ? y0 : y0 - margin;
        return {x0, x1, y0, y1: y1 + margin};
    }

    const toX = (r, x) => L + (x - r.x0) / (r.x1 - r.x0) * (W - L - R);
    const toY = (r, y) => H - B - (y - r.y0) / (r.y1 - r.y0) * (H - T - B);

    function element(parent, name, attributes, text) {
        const e = document.createElementNS('http://www.w3.org/2000/svg', name);
        for (const key in attributes) e.setAttribute(key, attributes[key]);
        if (text) e.textContent = text;
        return parent.appendChild(e);
    }

    function drawTicks(c, svg) {
        const r = c.range, ys = element(svg, 'g', {class: 'grid y'}), xs = element(svg, 'g', {class: 'grid x'});
        let step = tickStep(r.y0, r.y1, 5), odd = 0;
        if (c.log && r.y1 - r.y0 >= 1) step = Math.max(Math.ceil((r.y1 - r.y0) / 6), 1);
        for (const t of ticks(r.y0, r.y1, step)) {
            const y = toY(r, t).toFixed(1);
            element(ys, 'path', {d: 'M' + L + ' ' + y + 'H' + (W - R)});
            element(ys, 'text', {x: L - 8, y: +y + 4}, number(c.log ? Math.pow(10, t) : t));
        }
        step = axis === 'time' ? timeStep(r.x1 - r.x0) : Math.max(tickStep(r.x0, r.x1, 6), 1);
        for (const t of ticks(r.x0, r.x1, step))
            element(xs, 'text', {x: toX(r, t).toFixed(1), y: H - 12, class: odd++ % 2 ? 'odd' : ''}, onAxis(t));
    }

    function draw(c) {
        const svg = document.querySelector('#' + c.id + ' svg');
        svg.textContent = '';
        c.range = measure(c);
        if (c.range) drawTicks(c, svg);
        const lines = element(svg, 'g', {class: 'lines' + (c.series.some(s => s.look === 'smooth') ? ' has' : '')});
        for (const s of c.range ? c.series : []) {
            const at = places(s), color = 'c' + s.run % 8;
            let d = '';
            for (let i = 0; i < s.y.length; i++) {
                if (isNaN(at[i])) continue;
                const y = toY(c.range, c.log ? (s.y[i] > 0 ? Math.log10(s.y[i]) : c.range.y0) : s.y[i]);
                const x = toX(c.range, at[i]), move = d === '' || (s.part && s.part[i] !== s.part[i - 1]);
                d += (move ? 'M' : 'L') + x.toFixed(1) + ' ' + y.toFixed(1);
                if (s.look === 'dots' && s.y.length <= 200)
                    element(lines, 'circle', {class: color, r: 3, cx: x.toFixed(1), cy: y.toFixed(1)});
            }
            element(lines, 'path', {class: s.look + ' ' + color, d: s.y.length === 1 ? d + 'h.1' : d});
        }
        element(svg, 'path', {class: 'cross'});
    }

    // The cross-hair is on all charts at once.
    function cross(x) {
        for (const c of data.charts) {
            const figure = document.getElementById(c.id), line = figure.querySelector('.cross'), out = figure.querySelector('output');
            if (x === null || !c.range || x < c.range.x0 || x > c.range.x1) {
                line.setAttribute('d', '');
                out.textContent = '';
                continue;
            }
            line.setAttribute('d', 'M' + toX(c.range, x).toFixed(1) + ' ' + T + 'V' + (H - B));
            out.textContent = [onAxis(axis === 'step' ? Math.round(x) : x)].concat(c.series.filter(s => s.look !== 'lost').map(s => {
                const at = places(s), i = find(at, x);
                const near = i > 0 && (i === at.length || x - at[i - 1] < at[i] - x) ? i - 1 : i;
                const name = (names.length > 1 ? names[s.run] + ' ' : '') + (s.label === 'value' ? '' : s.label + ' ');
                return name + number(s.y[near]);
            })).join(' \u00b7 ');
        }
    }

    for (const c of data.charts) {
        const figure = document.getElementById(c.id), svg = figure.querySelector('svg');
        const button = document.createElement('button');
        button.textContent = 'log';
        const values = c.series.flatMap(s => s.y), low = Math.min(...values);
        // A logarithmic axis serves spikes; without any, a linear one shows more.
        c.log = c.log && low > 0 && Math.max(...values) > 20 * low;
        button.setAttribute('aria-pressed', String(c.log));
        button.addEventListener('click', () => {
            c.log = !c.log;
            button.setAttribute('aria-pressed', String(c.log));
            draw(c);
        });
        figure.querySelector('figcaption').appendChild(button);
        svg.addEventListener('pointermove', e => {
            const box = svg.getBoundingClientRect(), px = (e.clientX - box.left) / box.width * W;
            if (!c.range || px < L || px > W - R) return cross(null);
            cross(c.range.x0 + (px - L) / (W - L - R) * (c.range.x1 - c.range.x0));
        });
        svg.addEventListener('pointerleave', () => cross(null));
        draw(c);
    }
    const controls = document.querySelector('.controls');
    controls.hidden = data.charts.length === 0;
    controls.addEventListener('click', e => {
        if (!e.target.dataset.axis) return;
        axis = e.target.dataset.axis;
        controls.querySelectorAll('button').forEach(b => b.setAttribute('aria-pressed', String(b === e.target)));
        data.charts.forEach(draw);
    });
    if (data.runs.length && data.runs[0].samples)
        controls.querySelector('[data-axis=tokens]').textContent = 'samples';
})();
