// Requests and tokens per minute of a language model, with the true cost known only after the call. Run: npx node examples/llm-budgets.ts
import { input, limit, Sluice, task } from '../src/exports/index.ts'
import { createManualClock } from '../src/exports/testing.ts'

const requests = limit('llm.requests', { rate: 60, per: '1m', burst: 10, concurrency: 4 })
const tokens = limit('llm.tokens', { rate: 9000, per: '1m' })

/** A model that answers in a second. Short prompts cost less than estimated, long ones more. */
const clock = createManualClock()
const model = async (prompt: string): Promise<{ text: string; used: number }> => {
  await clock.sleep('1s')
  return { text: 'done', used: prompt.length < 500 ? prompt.length : prompt.length * 2 }
}
const estimate = (prompt: string): number => prompt.length + 200

let used = 0
const complete = task('llm.complete', input<{ prompt: string }>(), {
  limits: [requests, tokens.by(() => 'gpt', { weight: ({ prompt }) => estimate(prompt) })],
  async run({ prompt }, ctx) {
    const reply = await model(prompt)
    ctx.charge(tokens, reply.used - estimate(prompt))
    used += reply.used
    return reply.text
  },
})

const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [complete], clock })
await sluice.start()
const prompts = Array.from({ length: 60 }, (_, i) => 'x'.repeat(i % 3 === 0 ? 1000 : 300))
await complete.enqueueMany(prompts.map((prompt) => ({ prompt })))
for (let minute = 1; minute <= 6; minute++) {
  await clock.advance('1m')
  const [budget] = await sluice.limits.inspect(tokens, 'gpt')
  console.log(`after ${minute} min: ${used} tokens used, ${budget?.available} left, ${budget?.debt} owed`)
}
console.log('at most 9,000 at once and 9,000 a minute, whatever was estimated')
await sluice.stop()
