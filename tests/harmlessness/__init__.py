"""The collector hurts no engine, whatever goes wrong with it. Where each promise is held:

- an observer that raises, or meets arguments that refuse everything, in every hook of the table: `test_every_hook`
  on all supported releases without an engine, `test_engines_lab` with the modules of real ones; with requests going
  through a real pair: `tests/e2e/test_lab`
- a signal that arrives inside an observer, and what a probe does to results, exceptions and signatures:
  `tests/collector/hooks/test_probe`, `tests/collector/hooks/test_probe_installation`
- loading twice, uninstalling by identity, what is imported: `test_every_hook`, `test_imports`
- slow disk, full disk, no disk, a ring that overflows, the end of a process in such a state: `test_trouble`, and of
  the spool and the queues alone `tests/collector/sinks/test_spool`, `tests/collector/test_sender`
- a broker or receiver that is away, slow or refuses: `tests/kafka/test_kafka_sink`, `tests/collector/sinks/test_kafka`,
  `tests/collector/sinks/test_otlp`; that their libraries load with the sink that needs them and not before:
  `tests/collector/sinks/test_choice`
- fork and spawn: `test_processes`, and of the emitter alone `tests/collector/test_emitter_processes`
- memory: `test_memory`
"""
