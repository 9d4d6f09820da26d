// The requests to the server, which computes everything. A failure has one sentence as its text.

async function fetched(path, options) {
  const response = await fetch(path, options).catch(() => {
    throw new Error("the server does not reply: start it again with cargo run -p redlock-playground");
  });
  if (!response.ok) throw new Error(await response.text());
  return response;
}

function posted(body, signal) {
  return { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal };
}

export async function catalog() {
  return (await fetched("/api/catalog")).json();
}

// The request has either an address or a setup.
export async function run(request) {
  return (await fetched("/api/run", posted(request))).json();
}

// Calls `onProgress` with each line of the reply, until the search ends or is aborted.
export async function search(request, onProgress, signal) {
  const response = await fetched("/api/search", posted(request, signal));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    lines.forEach((line) => onProgress(JSON.parse(line)));
  }
}
