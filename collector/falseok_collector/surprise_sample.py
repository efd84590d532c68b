"""Ordinary text of several kinds, written for FalseOK: the sample behind `falseok_collector.surprise`."""

SAMPLE = """\
A server that answers quickly is not always a server that answers well. When we look at what people ask of a language
model, most questions are short and plain: how to write a letter, why a program fails, what the weather does to a
garden, where a river begins. The answer should be just as plain. It names the reason first, then the steps, and it
ends when everything has been said. If something is not known, a good answer says so instead of guessing. There were
three people in the room, and each of them remembered the story in another way. "Which of you is right?" asked the
judge. They looked at one another and said nothing. Later that evening the youngest wrote down what had happened, so
that it would not be forgotten: the quiet street, the open window, the black dog that would not stop barking.

Here is a summary of the most important points:
1. Read the whole message before you reply to it.
2. Check the numbers; a small mistake in the beginning grows quickly.
3. Keep a copy of your work, for example on a second disk.
* Bread, butter, cheese, and a jar of honey - about 12.50 in all.
* Mix the flour with 300 ml of water, 7 g of yeast and 10 g of salt; bake it at 230 degrees for 35 minutes.

However, the exact value depends on the size of the sample, the kind of equipment and the question itself. Because
exercise keeps both body and mind in good shape, even a brief walk every day is better than none. You'd expect this to
be obvious, but we've seen many cases where it wasn't. Please let me know whether that helps or if you have any other
questions. Sure! Let's think it through step by step. First, we need to find out how many apples are left. She had 24,
gave away 9 and bought 6 more, so the result is 24 - 9 + 6 = 21. The quadratic equation x^2 - 5x + 6 = 0 has two
solutions, x = 2 and x = 3. Jazz, quartz, oxygen, equinox, vivid, awkward, rhythm, lynx: unusual words happen, too.

def total(prices, tax=0.19):
    \"\"\"Sum of all prices, with tax.\"\"\"
    result = 0.0
    for name, price in prices.items():
        if price < 0:
            raise ValueError(f"{name} has a negative price")
        result += price * (1 + tax)
    return round(result, 2)

for (let i = 0; i < items.length; i++) { console.log(items[i].id, items[i].value); }
{"id": 17, "name": "engine", "tags": ["fast", "small"], "limits": {"requests": 100, "seconds": 60}, "open": true}
SELECT name, count(*) AS total FROM requests WHERE status = 200 GROUP BY name ORDER BY total DESC LIMIT 10;
| day | requests | errors |
|-----|----------|--------|
| Mon | 1,204    | 3      |
| Tue | 1,187    | 0      |
https://example.org/guide/index.html?page=2#top

Ein Rechner, der schnell antwortet, antwortet noch lange nicht richtig. Wer die Frage genau liest, findet meistens
auch den Fehler; manchmal hilft es, über Nacht darüber zu schlafen. Die Straße führt am Fluss entlang bis zu dem
kleinen Dorf, in dem früher die Müller wohnten. Für größere Mengen braucht man natürlich mehr Zeit.
Une bonne réponse commence par la raison, puis elle décrit les étapes. Il était déjà tard quand nous sommes arrivés à
la gare, mais le dernier train n'était pas encore parti. C'est pourquoi il faut vérifier les chiffres à l'avance.
La respuesta depende de muchas cosas: el tamaño, la hora y también la persona que pregunta. Mañana iremos al mercado
para comprar pan, aceite y un poco de queso. ¿Cuántos días faltan? No lo sé, pero podemos contarlos.
Uma boa explicação não precisa de muitas palavras. Amanhã vamos à praia, se o tempo continuar bom.
Il treno parte alle otto e arriva prima di mezzogiorno; poi si può andare a piedi fino al lago. Perché no?
Een goed antwoord is kort en duidelijk, en het zegt ook wat we nog niet weten.
Dobra odpowiedź jest krótka i jasna; każdy może ją sprawdzić, zanim pójdzie dalej. Çok güzel bir gün, değil mi?

Хороший ответ начинается с причины, а потом описывает все шаги по порядку. Вечером мы вернулись домой и рассказали,
что случилось на дороге. Сколько времени это займёт? Примерно два часа, если ничего не помешает.
Μια καλή απάντηση είναι σύντομη και σαφής. Το βράδυ γυρίσαμε στο σπίτι και είπαμε τι έγινε στον δρόμο.
תשובה טובה היא קצרה וברורה, והיא אומרת גם מה עוד לא ידוע.
الجواب الجيد قصير وواضح، ويذكر أيضا ما لا نعرفه بعد. عدنا إلى البيت في المساء وحكينا ما حدث.
एक अच्छा उत्तर छोटा और साफ़ होता है, और वह यह भी बताता है कि अभी क्या पता नहीं है।
คำตอบที่ดีนั้นสั้นและชัดเจน และบอกด้วยว่าอะไรที่เรายังไม่รู้

一个好的回答应该简短明了，先说明原因，然后列出步骤。如果有些事情还不知道，就直接说不知道。我们晚上回到家，把路上发生的事情讲了一遍。
使用Python编写程序时，要先检查输入的数据，再计算结果。例如：24减去9再加上6，等于21。
良い答えは短くて分かりやすいものです。まず理由を述べ、それから手順を説明します。分からないことがあれば、そう言えばいいのです。
좋은 대답은 짧고 분명합니다. 먼저 이유를 말하고 그다음에 순서를 설명합니다. 모르는 것이 있으면 모른다고 말하면 됩니다.
"""
