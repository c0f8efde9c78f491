/* SPDX-License-Identifier: Apache-2.0 */
// Evaluated in the page: what a reader would see of it.
(() => {
    const channels = text => (text.match(/[\d.]+/g) || []).map(Number);
    const light = text => {
        const [r, g, b] = channels(text).map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
    const style = (element, name) => getComputedStyle(element)[name];
    const all = selector => [...document.querySelectorAll(selector)];
    const page = style(document.body, "backgroundColor");
    const charts = {};
    let small = 0, faintest = 99;
    for (const figure of all("figure")) {
        const points = [...figure.querySelectorAll(".point")];
        const card = style(figure, "backgroundColor");
        charts[figure.id] = {
            declared: Number(figure.dataset.points),
            points: points.length,
            titled: points.filter(p => p.querySelector("title").textContent.trim() !== "").length,
            placed: points.filter(p => {
                const a = p.getBoundingClientRect(), b = figure.getBoundingClientRect();
                return a.width > 0 && a.left >= b.left && a.right <= b.right && a.top >= b.top && a.bottom <= b.bottom;
            }).length,
        };
        for (const svg of figure.querySelectorAll(":scope > svg"))
            small += svg.getBoundingClientRect().width < 200;
        for (const use of figure.querySelectorAll(".point use, .point rect"))
            faintest = Math.min(faintest, contrast(style(use, "color"), card));
        for (const text of figure.querySelectorAll("text"))
            faintest = Math.min(faintest, contrast(style(text, "fill"), card) / 1.5);
    }
    const ids = all("[id]").map(e => e.id);
    return JSON.stringify({
        charts, small, faintest, page,
        ink: contrast(style(document.body, "color"), page),
        title: document.title,
        language: document.documentElement.lang,
        sideways: Math.max(document.documentElement.scrollWidth, document.body.scrollWidth) - document.documentElement.clientWidth,
        scripts: all("script, img, iframe, object, link").length,
        handlers: all("*").filter(e => [...e.attributes].some(a => a.name.startsWith("on"))).length,
        headless: all("table").filter(t => !t.querySelector("th[scope=col]")).length,
        repeated: ids.length - new Set(ids).size,
        sentences: all(".says li").length,
    });
})()
