// What a page does beside being read: sorts and copies tables, shows a chart's points, hides
// series. Nothing is sent, nothing is stored, and no text becomes markup.
(function () {
  "use strict";
  var all = function (what, within) {
    return Array.prototype.slice.call((within || document).querySelectorAll(what));
  };
  var make = function (name, text) {
    var made = document.createElement(name);
    made.textContent = text;
    return made;
  };

  // How much a unit is of the smallest of its kind; other words after a number change nothing.
  var UNITS = {
    ps: 1, ns: 1e3, us: 1e6, "\u00b5s": 1e6, "\u03bcs": 1e6, ms: 1e9, s: 1e12, min: 6e13, h: 3.6e15,
    B: 1, KB: 1e3, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12,
    KiB: 1024, MiB: 1048576, GiB: 1073741824, TiB: 1099511627776
  };
  // Units as files write them, such as gib(512) and gb_per_s(64).
  var WRITTEN = { gflops: 1e9, tflops: 1e12, pflops: 1e15 };
  Object.keys(UNITS).forEach(function (unit) { WRITTEN[unit.toLowerCase()] = UNITS[unit]; });
  // The value of a cell such as "+12.3", "1.5e-7", "12.3 %" or "1.09 ms"; null for words and dashes.
  var number = function (text) {
    var found = /^([+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?:$|[\s\u00a0]+([^\s\/]*))/.exec(text);
    if (!found) {
      var written = /^([a-z]+)(?:_per_[a-z]+)?\(([\d._]+)\)$/.exec(text);
      return written ? parseFloat(written[2].replace(/_/g, "")) * (WRITTEN[written[1]] || 1) : null;
    }
    // "12 times" as much is 1100 % more, and stands beside such changes.
    if (found[2] === "times") { return 100 * (parseFloat(found[1]) - 1); }
    return parseFloat(found[1]) * (UNITS.hasOwnProperty(found[2]) ? UNITS[found[2]] : 1);
  };
  var textOf = function (cell) {
    var copy = cell.cloneNode(true);
    all(".here, .order", copy).forEach(function (extra) { extra.remove(); });
    return copy.textContent.trim().replace(/\s+/g, " ");
  };

  // Numbers before words, dashes last; equals keep their order.
  var compare = function (a, b) {
    if ((a.number === null) !== (b.number === null)) { return a.number === null ? 1 : -1; }
    if (a.number !== null) { return a.number - b.number; }
    return a.text.localeCompare(b.text);
  };
  var empty = function (item) { return item.text === "" || item.text === "-"; };
  var sort = function (table, column, descending) {
    var body = table.tBodies[0];
    var items = Array.prototype.map.call(body.rows, function (row) {
      var text = textOf(row.cells[column]);
      return { row: row, text: text, number: number(text) };
    });
    items.sort(function (a, b) {
      if (empty(a) || empty(b)) { return Number(empty(a)) - Number(empty(b)); }
      return descending ? compare(b, a) : compare(a, b);
    });
    items.forEach(function (item) { body.appendChild(item.row); });
  };
  var sortable = function (table) {
    if (table.tBodies[0].rows.length < 2) { return; }
    var heads = all("thead th", table);
    heads.forEach(function (head, column) {
      var button = make("button", "");
      button.type = "button";
      while (head.firstChild) { button.appendChild(head.firstChild); }
      var sign = make("span", "");
      sign.className = "order";
      sign.setAttribute("aria-hidden", "true");
      button.appendChild(sign);
      head.appendChild(button);
      button.addEventListener("click", function () {
        var descending = head.getAttribute("aria-sort") === "ascending";
        heads.forEach(function (other) {
          other.removeAttribute("aria-sort");
          other.querySelector(".order").textContent = "";
        });
        head.setAttribute("aria-sort", descending ? "descending" : "ascending");
        sign.textContent = descending ? " \u25bc" : " \u25b2";
        sort(table, column, descending);
      });
    });
  };

  // What a spreadsheet would run as a formula is led by an apostrophe, unless it is a number.
  var guarded = function (text) {
    var formula = /^[=+\-@\t\r]/.test(text) && number(text) === null && text !== "-";
    return (formula ? "'" : "") + text;
  };
  var rows = function (table) {
    return all("tr", table).map(function (row) {
      return Array.prototype.map.call(row.cells, textOf);
    });
  };
  var tsv = function (table) {
    return rows(table).map(function (row) {
      return row.map(function (text) {
        return guarded(text.replace(/[\t\r\n]+/g, " "));
      }).join("\t");
    }).join("\n") + "\n";
  };
  var markdown = function (table) {
    var sides = all("thead th", table).map(function (head) {
      return head.className.indexOf("number") < 0 ? "---" : "---:";
    });
    var lines = rows(table).map(function (row) {
      return "| " + row.map(function (text) {
        return text.replace(/([\\|`*_\[\]<>&])/g, "\\$1");
      }).join(" | ") + " |";
    });
    lines.splice(1, 0, "|" + sides.join("|") + "|");
    return lines.join("\n") + "\n";
  };
  var copyOld = function (text) {
    var area = document.createElement("textarea");
    area.value = text;
    document.body.appendChild(area);
    area.select();
    var done = document.execCommand("copy");
    area.remove();
    return done;
  };
  var copying = function (box, table) {
    var bar = make("div", "");
    bar.className = "copy";
    var said = make("span", "");
    said.setAttribute("role", "status");
    var title = table.caption ? table.caption.textContent : "table";
    [["TSV", tsv], ["Markdown", markdown]].forEach(function (kind) {
      var button = make("button", "Copy as " + kind[0]);
      button.type = "button";
      button.setAttribute("aria-label", "Copy as " + kind[0] + ": " + title);
      button.addEventListener("click", function () {
        var text = kind[1](table);
        var tell = function (done) {
          said.textContent = done ? "copied as " + kind[0] : "the browser refused to copy";
          button.focus();
        };
        var old = function () { tell(copyOld(text)); };
        if (navigator.clipboard) {
          navigator.clipboard.writeText(text).then(function () { tell(true); }, old);
        } else {
          old();
        }
      });
      bar.appendChild(button);
    });
    bar.appendChild(said);
    box.parentNode.insertBefore(bar, box.nextSibling);
  };

  // A point's numbers are shown while the pointer or the focus is on it.
  var points = function (figure) {
    var sheet = figure.querySelector(".sheet");
    var links = all(".marks a", figure);
    if (links.length === 0) { return; }
    var tip = make("div", "");
    tip.className = "tip";
    tip.setAttribute("aria-hidden", "true");
    tip.hidden = true;
    sheet.appendChild(tip);
    var show = function (link) {
      var place = link.getBoundingClientRect();
      var whole = sheet.getBoundingClientRect();
      // On a narrow page the box scrolls, and shows a part of the sheet.
      var seen = sheet.parentNode.getBoundingClientRect();
      tip.textContent = link.getAttribute("aria-label");
      tip.hidden = false;
      var middle = place.left - whole.left + place.width / 2 - tip.offsetWidth / 2;
      var from = Math.max(0, seen.left - whole.left);
      var to = Math.min(whole.width, seen.right - whole.left) - tip.offsetWidth;
      tip.style.left = Math.max(from, Math.min(to, middle)) + "px";
      var above = place.top - whole.top - tip.offsetHeight - 6;
      tip.style.top = (above >= 0 ? above : place.bottom - whole.top + 6) + "px";
    };
    var hide = function () { tip.hidden = true; };
    links.forEach(function (link) {
      link.addEventListener("mouseenter", function () { show(link); });
      link.addEventListener("focus", function () { show(link); });
      link.addEventListener("mouseleave", hide);
      link.addEventListener("blur", hide);
    });
    document.addEventListener("keydown", function (event) {
      if (event.key === "Escape") { hide(); }
    });
  };

  // Entries of the legend become buttons that hide and show what belongs to their series.
  var toggles = function (figure) {
    all(".keys li", figure).forEach(function (entry) {
      var series = entry.getAttribute("data-series");
      var button = make("button", "");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      while (entry.firstChild) { button.appendChild(entry.firstChild); }
      entry.appendChild(button);
      button.addEventListener("click", function () {
        var shown = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(shown));
        all("[data-series='" + series + "']", figure.querySelector(".sheet"))
          .forEach(function (mark) { mark.classList.toggle("off", !shown); });
      });
    });
  };

  // What a link leads to is opened, and so is all that is folded when the page is printed.
  var open = function () {
    var target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    var next = target && target.nextElementSibling;
    while (next && !/^(H[1-6]|SECTION)$/.test(next.nodeName)) {
      if (next.nodeName === "DETAILS") { next.open = true; }
      next = next.nextElementSibling;
    }
  };

  all(".wide").forEach(function (box) {
    var table = box.querySelector("table");
    sortable(table);
    copying(box, table);
  });
  all("figure").forEach(function (figure) {
    points(figure);
    toggles(figure);
  });
  window.addEventListener("hashchange", open);
  open();
}());
