import { type Command, Option } from 'commander'

/** Adds the options of a server, which `serve` obeys and `config` shows. */
export function addServerOptions(command: Command): Command {
  return command
    .addOption(new Option('--store <url>', 'the store (default: SLUICE_STORE, else sqlite:./sluice.db)'))
    .addOption(new Option('--port <number>', 'where to listen; 0: any that is free (default: 8080)'))
    .addOption(new Option('--host <name>', 'where to listen; beyond loopback only with tokens (default: 127.0.0.1)'))
    .addOption(new Option('--config <file>', 'JSON: settings, tokens, limits, types, queues (default: SLUICE_CONFIG)'))
    .addOption(
      new Option('--budgets <url>', 'the limits of /limiter/v1: memory:, redis://… or nats://… (default: the store)'),
    )
    .addOption(new Option('--drain-delay <duration>', 'serve on for so long after a signal to stop (default: 0s)'))
    .addOption(
      new Option('--durability <kind>', 'what an answer is worth (default: power)').choices(['power', 'process']),
    )
    .addOption(new Option('--log <level>', 'the lowest level of the log (default: info)'))
}
