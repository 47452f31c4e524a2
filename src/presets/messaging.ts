/** Slack, Discord, Twilio, SendGrid and Resend. */
import { type Preset, preset, type PresetLimit, within } from './preset.ts'
import { page } from './sources.ts'

const METHOD = 'the method, the workspace and the app'

function tier(perMinute: number): { readonly calls: PresetLimit } {
  return { calls: { policy: within(perMinute, '1m'), key: METHOD } }
}

/** Slack's Web API: the tier of each method, and the posting of messages. */
export const slack: Preset<'tier1' | 'tier2' | 'tier3' | 'tier4' | 'posting', 'calls'> = preset(
  {
    name: 'slack',
    title: 'Slack Web API',
    sources: [
      page('https://api.slack.com/docs/rate-limits'),
      page('https://docs.slack.dev/apis/web-api/rate-limits.md'),
      page('https://hexdocs.pm/slack_bot_ws/rate_limiting.html'),
    ],
    headers: [],
    refusal: { status: [429], wait: ['retry-after'] },
    byOperation: true,
    note: 'Each tier is a lower bound: Slack tolerates some bursts. Newer apps outside of the Marketplace get less.',
  },
  {
    tier1: tier(1),
    tier2: tier(20),
    tier3: tier(50),
    tier4: tier(100),
    posting: { calls: { policy: within(1, '1s'), key: 'the channel' } },
  },
)

/** Discord's global limit. Limits by route come in headers, and the provider asks not to write them down. */
export const discord: Preset<'bot', 'global'> = preset(
  {
    name: 'discord',
    title: 'Discord API',
    sources: [page('https://docs.discord.com/developers/topics/rate-limits')],
    headers: [
      'x-ratelimit-limit',
      'x-ratelimit-remaining',
      'x-ratelimit-reset',
      'x-ratelimit-reset-after',
      'x-ratelimit-bucket',
    ],
    refusal: { status: [429], wait: ['retry-after', 'x-ratelimit-reset-after'] },
    note: 'The headers report the limit of the route: calibrate a limit of yours by them, keyed by the bucket.',
  },
  { bot: { global: { policy: within(50, '1s'), key: 'the bot' } } },
)

function sender(perSecond: number): Preset<string, 'segments' | 'account'>['plans'][string] {
  return {
    segments: { policy: within(perSecond, '1s'), key: 'the sending number', unit: 'segments of the message' },
    account: { policy: within(2000, '1s'), key: 'the account, with its subaccounts' },
  }
}

/** Twilio: messages by the kind of the sending number. */
export const twilio: Preset<'long-code' | 'short-code', 'segments' | 'account'> = preset(
  {
    name: 'twilio',
    title: 'Twilio Messaging',
    sources: [
      page('https://www.twilio.com/docs/api/errors/30001'),
      page('https://www.twilio.com/docs/api/errors/63017.md', '2026-03-26'),
      page('https://www.twilio.com/docs/api/errors/20429'),
    ],
    headers: [],
    refusal: { status: [429], wait: [], mark: '20429', otherwise: '1s' },
    note: 'Twilio queues messages above the rate of a number for up to 10 hours. Error 20429 is about calls at once.',
  },
  { 'long-code': sender(1), 'short-code': sender(100) },
)

/** SendGrid: the default limit of some endpoints of its API v2, but for mail/send. */
export const sendgrid: Preset<'v2', 'requests'> = preset(
  {
    name: 'sendgrid',
    title: 'SendGrid API',
    sources: [
      page('https://twilio.com/en-us/changelog/imposing-rate-limits-on-some-sendgrid-v2-api-endpoints', '2019-10-10'),
      page('https://www.twilio.com/docs/sendgrid/api-reference/how-to-use-the-sendgrid-v3-api/rate-limits'),
    ],
    headers: ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'],
    refusal: { status: [429], wait: ['x-ratelimit-reset'] },
    note: 'For v3 no page names numbers: the headers of each endpoint do.',
  },
  { v2: { requests: { policy: within(600, '1m', { calibrate: 'headers' }), key: 'the user' } } },
)

/** Resend. */
export const resend: Preset<'default', 'requests'> = preset(
  {
    name: 'resend',
    title: 'Resend API',
    sources: [page('https://resend.com/docs/api-reference/rate-limit')],
    headers: ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset'],
    refusal: { status: [429], wait: ['retry-after', 'ratelimit-reset'] },
  },
  { default: { requests: { policy: within(2, '1s', { calibrate: 'headers' }), key: 'the team' } } },
)
