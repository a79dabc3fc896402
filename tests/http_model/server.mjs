// An OpenAI-compatible server whose answer depends on the last thing a person said.
// It prints its address, and ends when its standard input does.
import { LLMock } from "@copilotkit/aimock";

const mock = new LLMock({ port: 0, logLevel: "silent", auth: { apiKeys: [process.env.KEY] } });
const usage = { prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 };
const fail = (status, code, more = {}) => ({
  error: { message: `the service says ${code}`, type: code, code }, status, ...more,
});
const answers = {
  hello: { content: "Hello.", usage },
  "use a tool": { content: "", toolCalls: [{ name: "add", arguments: '{"a": 1, "b": 2}', id: "call_1" }], usage },
  "break a tool": { toolCalls: [{ name: "add", arguments: '{"a": ', id: "call_2" }] },
  "say nothing": { content: "" },
  busy: fail(429, "rate_limit_exceeded", { retryAfter: 7 }),
  "no quota": fail(429, "insufficient_quota"),
  broken: fail(500, "server_error"),
  "no such model": fail(404, "model_not_found"),
  "bad request": fail(400, "invalid_request_error"),
};
for (const [userMessage, response] of Object.entries(answers)) {
  mock.addFixture({ match: { userMessage, hasToolResult: false }, response });
}
mock.addFixture({ match: { userMessage: "use a tool", hasToolResult: true }, response: { content: "It is 3." } });
mock.addFixture({ match: { userMessage: "break a tool", hasToolResult: true }, response: { content: "I see." } });
mock.addFixture({ match: { userMessage: "be slow" }, response: { content: "Late." }, chaos: { latencyMs: 20000 } });
await mock.start();
console.log(mock.url);
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
