// The simulator beside a page: where it runs, how it is asked, and what becomes of its answers.
// One of three pieces of one script; what runs is a module of WebAssembly that can call nothing.
  // What runs beside the page, in a worker where the browser gives one: it is written out as text
  // for that, so it uses nothing from outside. It takes {module, files, first, of} once, then {set},
  // runs every `of`th case from the first, and tells {ok} or {error}.
  var engine = function (tell) {
    var kept = null, calls = null;
    // Two signs are 13 bits, the lower ones first; a last one alone is 6.
    var SIGNS = "!\"#$%'()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~";
    var bytesOf = function (text) {
      var digit = new Uint8Array(128);
      for (var sign = 0; sign < 91; sign += 1) { digit[SIGNS.charCodeAt(sign)] = sign; }
      var bytes = new Uint8Array((text.length >> 1) * 13 + text.length % 2 * 6 >> 3);
      for (var at = 0, end = 0, kept = 0, bits = 0; at < text.length; at += 2) {
        kept |= digit[text.charCodeAt(at)] + 91 * (digit[text.charCodeAt(at + 1)] || 0) << bits;
        // What is written beyond the end is dropped.
        for (bits += 13; bits >= 8; bits -= 8, kept >>= 8, end += 1) { bytes[end] = kept; }
      }
      return bytes;
    };
    // Sections of the page's module: one that browsers unpack, and the simulator, which it unpacks.
    var section = function (file, name, pack) {
      var bytes = new Blob(WebAssembly.Module.customSections(file, name)).stream();
      return new Response(pack ? bytes.pipeThrough(pack) : bytes).arrayBuffer();
    };
    var unpacks = function (its) {
      return function (packed) {
        var room = its.input(packed.length);
        new Uint8Array(its.memory.buffer, room, packed.length).set(packed);
        var length = its.unpack();
        if (!length) { throw new Error("the simulator in this page is damaged"); }
        return new Uint8Array(its.memory.buffer, its.output(), length).slice();
      };
    };
    var said = function (length) {
      return new TextDecoder().decode(new Uint8Array(calls.memory.buffer, calls.output(), length));
    };
    var call = function (name, bytes) {
      try {
        var room = calls.input(bytes.length);
        new Uint8Array(calls.memory.buffer, room, bytes.length).set(bytes);
        return JSON.parse(said(calls[name](kept.first, kept.of)));
      } catch (trap) {
        // What trapped is not called again: the next question loads it anew.
        var why = String(trap);
        try { why = said(calls.fault()) || why; } catch (worse) { why = String(trap); }
        calls = null;
        return { error: "internal fault of the simulator: " + why };
      }
    };
    var load = function () {
      return WebAssembly.instantiate(kept.module, {}).then(function (made) {
        calls = made.instance.exports;
        return call("load", kept.files);
      });
    };
    return function (message) {
      var work;
      if (message.module) {
        work = WebAssembly.compile(bytesOf(message.module)).then(function (file) {
          var first = section(file, "tiersim-unpack", new DecompressionStream("gzip"));
          return Promise.all([first.then(WebAssembly.instantiate), section(file, "tiersim-simulator")]);
        }).then(function (parts) {
          var unpacked = unpacks(parts[0].instance.exports);
          kept = { files: unpacked(bytesOf(message.files)), first: message.first, of: message.of };
          kept.module = unpacked(new Uint8Array(parts[1]));
          return load();
        });
      } else {
        work = (calls ? Promise.resolve({}) : load()).then(function (loaded) {
          if (loaded.error) { return loaded; }
          return call("run", new TextEncoder().encode(JSON.stringify(message.set)));
        });
      }
      work.then(tell, function (error) { tell({ error: String(error) }); });
    };
  };

  // Why a page may not be right any more.
  var STALE = "Refused: the simulator in this page does not give the numbers of this report. Build " +
    "it again (cargo xtask what-if) and run the scenario again.";

  var OWN = { name: "the report", cases: "as reported" }; // What is set is held against this.
  // Several of them that share the cases, each in a worker; or one in the page itself, where the
  // browser gives it no workers. Loads what the page holds, and gives back how to ask for more;
  // `tell` hears what all together answer.
  var pool = function (place, tell) {
    var text = function (id) { return document.getElementById(id).textContent; };
    var cases = JSON.parse(place.dataset.nominal).length;
    var most = Math.max(1, Math.min(4, navigator.hardwareConcurrency || 1, cases));
    var ports = [];
    var asked = null;
    var given = [];
    var started = 0;
    var merged = function () {
      var failed = given.filter(function (one) { return one.error; })[0];
      if (failed) { return failed; }
      var all = given.map(function (one) { return one.ok.answer || one.ok; });
      var cases = [];
      for (var at = 0; at < all[0].cases.length * all.length; at += 1) {
        var one = all[at % all.length].cases[Math.floor(at / all.length)];
        if (one) { cases.push(one); }
      }
      return { ok: { cases: cases, command: all[0].command, warnings: all[0].warnings,
        knobs: given[0].ok.knobs, beyond: given[0].ok.beyond } };
    };
    var heard = function (at, message) {
      given[at] = message;
      for (var port = 0; port < ports.length; port += 1) { if (!given[port]) { return; } }
      var all = merged();
      all.ms = performance.now() - started;
      tell(all);
    };
    var ask = function (message) {
      asked = message;
      given = [];
      started = performance.now();
      ports.forEach(function (port, at) {
        port(Object.assign({ first: at, of: ports.length }, message));
      });
    };
    var here = function () {
      place.dataset.runs = "page";
      var take = engine(function (told) { heard(0, told); });
      ports = [function (message) { setTimeout(take, 20, message); }];
    };
    try {
      var code = "\"use strict\"; onmessage = function (event) { take(event.data); };\n" +
        "var take = (" + engine.toString() + ")(function (told) { postMessage(told); });";
      var url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
      place.dataset.runs = "worker";
      ports = Array.from({ length: most }, function (_, at) {
        var worker = new Worker(url);
        worker.onmessage = function (event) { heard(at, event.data); };
        worker.onerror = function (event) {
          event.preventDefault();
          if (place.dataset.runs === "page") { return; }
          here();
          if (asked) { ask(asked); }
        };
        return function (message) { worker.postMessage(message); };
      });
    } catch (none) {
      here();
    }
    ask({ module: text("what-if-module"), files: text("what-if-files") });
    return ask;
  };
