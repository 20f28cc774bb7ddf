// The scenario's text, where the server takes another one: it is checked there before it is kept.
  var editor = document.querySelector(".edit");
  var keep = function () {
    var text = editor.querySelector("textarea");
    var list = editor.querySelector("ul");
    var said = editor.querySelector("[role=status]");
    said.textContent = "The scenario is being checked.";
    list.textContent = "";
    var how = { method: "PUT", body: text.value,
      headers: { "content-type": "text/plain; charset=utf-8", "if-match": text.dataset.tag } };
    answered(fetch("/scenario", how), function (message) {
      if (message.ok) { location.reload(); return; }
      said.textContent = "Not saved.";
      (message.errors || [{ error: { message: message.error } }]).forEach(function (one) {
        make("li", (one.error && one.error.message) || one.fault, list);
      });
    });
  };
  if (editor) { editor.querySelector("button").addEventListener("click", keep); }
